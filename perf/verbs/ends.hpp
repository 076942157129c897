// The two roles of a run, over a connected control link: the client goes through its matrix and reports, the server
// does what each row asks.
#pragma once

#include "arguments.hpp"
#include "control_link.hpp"
#include "ports.hpp"

namespace twohop::verbs_perf {

/// Prints rows as they are measured, then summary and comparison; writes the files. The exit code, or an error.
Result<int> run_client(const Arguments& a, const Ports& ports, ControlLink& link);
/// The client's rows, checked against its own ports before the server is asked: bad values end here.
Result<std::vector<RowSpec>> plan_rows(const Arguments& a, const Ports& ports);
/// Whether the files can be read and written; before anything is measured.
Result<> check_files(const Arguments& a);

/// Serves one client until it says goodbye; the number of rows.
Result<size_t> run_server(const Ports& ports, ControlLink& link);

}  // namespace twohop::verbs_perf
