// Do the ranks of a host get the machine from one of them, and go on where that does not work?
#include "collectives/exec/host_topology.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "collectives/exec/job_topology.hpp"
#include "topology/json.hpp"

namespace twohop {
namespace {

using Json = nlohmann::json;

class HostTopology : public testing::Test {
 protected:
  explicit HostTopology(size_t ranks = 3) {
    for (size_t i = 0; i < ranks; ++i) {
      auto exchange = LocalExchange::create();
      EXPECT_TRUE(exchange);
      exchanges_.push_back(std::move(*exchange));
      messages_.push_back(host_rank_message({}, exchanges_.back()));
      messages_.back()["knows"] = false;  // whatever other tests of this process have read
    }
  }
  Deadline deadline() const { return std::chrono::steady_clock::now() + std::chrono::seconds(20); }

  std::vector<LocalExchange> exchanges_;
  std::vector<Json> messages_;
  Secret secret_ = random_secret();
};

TEST_F(HostTopology, IsHandedToAllRanksByTheLowest) {
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < messages_.size(); ++rank)
    threads.emplace_back([&, rank] {
      EXPECT_TRUE(share_topology_of_host(static_cast<int>(rank), messages_, {}, exchanges_[rank], secret_, deadline()));
    });
  for (auto& t : threads) t.join();
  EXPECT_TRUE(knows_topology());
}

TEST_F(HostTopology, IsWhatTheReaderRead) {
  auto local = learn_topology({});
  ASSERT_TRUE(local);
  const std::string text = topology::write_json((*local)->machine);
  auto copy = topology::read_json(text, "copy");
  ASSERT_TRUE(copy) << copy.error().message;
  EXPECT_EQ(topology::write_json(*copy), text);
}

TEST_F(HostTopology, IsNeededOfNobodyByRanksThatKnowItOrHaveAFile) {
  for (Json& m : messages_) m["knows"] = true;
  EXPECT_TRUE(share_topology_of_host(2, messages_, {}, exchanges_[2], secret_, deadline()));
  Options file;
  file.topo_file = "/nowhere";
  messages_[0] = host_rank_message(file, exchanges_[0]);
  EXPECT_TRUE(share_topology_of_host(0, messages_, file, exchanges_[0], secret_, deadline()));
}

TEST_F(HostTopology, IsReadByTheRankItselfWhenTheReaderCannotBeReached) {
  messages_[0]["exchange"] = "twohop-nobody";
  EXPECT_TRUE(share_topology_of_host(1, messages_, {}, exchanges_[1], secret_, deadline()));
}

TEST_F(HostTopology, RefusesAMessageThatLacksAField) {
  for (const char* field : {"machine", "exchange", "own file", "knows"}) {
    std::vector<Json> broken = messages_;
    broken[1].erase(field);
    EXPECT_FALSE(share_topology_of_host(1, broken, {}, exchanges_[1], secret_, deadline())) << field;
    broken[1][field] = Json::array();
    if (std::string(field) != "machine") {
      EXPECT_FALSE(share_topology_of_host(1, broken, {}, exchanges_[1], secret_, deadline())) << field;
    }
  }
  std::vector<Json> broken = messages_;
  broken[1] = 3;
  EXPECT_FALSE(share_topology_of_host(1, broken, {}, exchanges_[1], secret_, deadline()));
}

}  // namespace
}  // namespace twohop
