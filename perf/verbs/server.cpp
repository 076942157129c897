// The server's side of ends.hpp.
#include <unistd.h>

#include "ends.hpp"
#include "flow.hpp"
#include "hello.hpp"

namespace twohop::verbs_perf {
namespace {

constexpr double kNextRowSeconds = 600;
using nlohmann::json;

Result<> serve_row(const Ports& ports, const json& request, ControlLink& link) {
  auto row = row_from_json(request.value("row", json()));
  if (!row) return row.error();
  auto client = remote_ports(request.value("ports", json()));
  if (!client) return client.error();
  std::vector<size_t> places;
  for (const json& place : request.value("places", json::array()))
    places.push_back(place.is_number_unsigned() ? place.get<size_t>() : SIZE_MAX);
  places.resize(client->size(), SIZE_MAX);
  auto mine = ports.for_server(*row, *client, places);
  if (!mine) return mine.error();
  json list = json::array();
  for (const RowPort& port : *mine) {
    list.push_back(to_json(port));
    list.back()["words"] = ports.describe(port);
    if (auto ok = ports.check_port(*port.rail, *row); !ok) return ok;
  }
  const Deadline deadline = after(row->patience_s);
  if (auto sent = link.send({{"ports", list}}, deadline); !sent) return sent;
  auto end = RowEnd::connect(*row, 1, *mine, *client, link, deadline);
  if (!end) return end.error();
  auto result = run_flow(**end, link);
  if (!result) return result.error();
  auto theirs = link.exchange(to_json(*result), after(row->patience_s));
  return theirs ? Result<>() : Result<>(theirs.error());
}

}  // namespace

Result<size_t> run_server(const Ports& ports, ControlLink& link) {
  auto hello = link.exchange(hello_message(ports), after(30));
  if (!hello) return hello.error();
  if (auto known = check_hello(*hello); !known) {
    link.tell(known.error());
    return known.error();
  }
  for (size_t rows = 0;; ++rows) {
    auto request = link.receive(after(kNextRowSeconds));
    if (!request) return request.error();
    if (request->contains("bye")) return rows;
    if (auto served = serve_row(ports, *request, link); !served) {
      link.tell(served.error());
      return served.error();
    }
  }
}

}  // namespace twohop::verbs_perf
