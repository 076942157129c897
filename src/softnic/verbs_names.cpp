// The exported functions of libibverbs that know no device: names of constants, files, fork.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace {

template <size_t N>
const char* name_of(const char* const (&names)[N], int index, const char* unknown) {
  return index >= 0 && static_cast<size_t>(index) < N ? names[index] : unknown;
}

}  // namespace

extern "C" {

const char* ibv_wc_status_str(ibv_wc_status status) {
  static const char* const names[] = {"success",
                                      "local length error",
                                      "local QP operation error",
                                      "local EE context operation error",
                                      "local protection error",
                                      "Work Request Flushed Error",
                                      "memory management operation error",
                                      "bad response error",
                                      "local access error",
                                      "remote invalid request error",
                                      "remote access error",
                                      "remote operation error",
                                      "transport retry counter exceeded",
                                      "RNR retry counter exceeded",
                                      "local RDD violation error",
                                      "remote invalid RD request",
                                      "aborted error",
                                      "invalid EE context number",
                                      "invalid EE context state",
                                      "fatal error",
                                      "response timeout error",
                                      "general error",
                                      "TM error",
                                      "TM software rendezvous"};
  return name_of(names, status, "unknown");
}

const char* ibv_node_type_str(ibv_node_type type) {
  static const char* const names[] = {"unknown",           "InfiniBand channel adapter",
                                      "InfiniBand switch", "InfiniBand router",
                                      "iWARP NIC",         "usNIC",
                                      "usNIC UDP",         "unspecified"};
  return name_of(names, type, "unknown");
}

const char* ibv_port_state_str(ibv_port_state state) {
  static const char* const names[] = {"no state change (NOP)", "down", "init", "armed", "active", "active defer"};
  return name_of(names, state, "invalid state");
}

const char* ibv_event_type_str(ibv_event_type type) {
  static const char* const names[] = {"CQ error",
                                      "local work queue catastrophic error",
                                      "invalid request local work queue error",
                                      "local access violation work queue error",
                                      "communication established",
                                      "send queue drained",
                                      "path migrated",
                                      "path migration request error",
                                      "local catastrophic error",
                                      "port active",
                                      "port error",
                                      "LID change",
                                      "P_Key change",
                                      "SM change",
                                      "SRQ catastrophic error",
                                      "SRQ limit reached",
                                      "last WQE reached",
                                      "client reregistration",
                                      "GID table change",
                                      "WQ fatal"};
  return name_of(names, type, "unknown");
}

int ibv_fork_init() {
  return 0;
}  // nothing is pinned: copy on write does no harm
ibv_fork_status ibv_is_fork_initialized() {
  return IBV_FORK_UNNEEDED;
}

const char* ibv_get_sysfs_path() {
  return "/sys";
}

int ibv_read_sysfs_file(const char* folder, const char* name, char* text, size_t size) {
  int fd = open((std::string(folder) + "/" + name).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t got = read(fd, text, size);
  close(fd);
  if (got > 0 && text[got - 1] == '\n')
    text[--got] = '\0';
  else if (got >= 0 && static_cast<size_t>(got) < size)
    text[got] = '\0';
  return static_cast<int>(got);
}

}  // extern "C"
