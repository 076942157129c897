// What is read of a port's counters, and what counts as a retry.
#include "transport/verbs/verbs_hw_counters.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace twohop::verbs {
namespace {

namespace fs = std::filesystem;

/// A folder like /sys/class/infiniband/<device>, with one port.
class Device {
 public:
  Device() : path_(fs::temp_directory_path() / ("twohop-counters-" + std::to_string(::getpid()))) {
    fs::create_directories(path_ / "ports/1/hw_counters");
    fs::create_directories(path_ / "ports/1/counters");
  }
  ~Device() { fs::remove_all(path_); }
  void set(const std::string& file, const std::string& text) { std::ofstream(path_ / "ports/1" / file) << text; }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

TEST(HwCounters, AreReadByFolderAndTogether) {
  Device device;
  device.set("hw_counters/packet_seq_err", "3\n");
  device.set("counters/port_xmit_data", "   44\n");
  device.set("counters/port_xmit_discards", "Invalid argument\n");
  EXPECT_EQ(read_hw_counters(device.path(), 1), (HwCounters{{"packet_seq_err", 3}, {"port_xmit_data", 44}}));
  EXPECT_EQ(read_hw_counters(device.path(), 1, "counters"), (HwCounters{{"port_xmit_data", 44}}));
  EXPECT_TRUE(read_hw_counters(device.path(), 2).empty());
}

TEST(HwCounters, RetriesAreTheRequestersOfOneFamilyOfNames) {
  const HwCounters mlx5{{"local_ack_timeout_err", 1},
                        {"packet_seq_err", 20},
                        {"implied_nak_seq_err", 300},
                        {"rnr_nak_retry_err", 4000},
                        {"out_of_sequence", 50000}};
  EXPECT_EQ(retries_in(mlx5), 4321u);
  const HwCounters rxe{{"completer_retry_err", 5}, {"rcvd_rnr_err", 2}, {"rcvd_seq_err", 4}, {"sent_pkts", 99}};
  EXPECT_EQ(retries_in(rxe), 7u);
  // The same events under two families' names count once.
  HwCounters both = rxe;
  both["local_ack_timeout_err"] = 1;
  EXPECT_EQ(retries_in(both), 1u);
  EXPECT_EQ(retries_in({{"to_retransmits", 1}, {"seq_err_naks_rcvd", 2}, {"rnr_naks_rcvd", 3}}), 6u);
}

TEST(HwCounters, ReceiversThatWereNotReadyHaveANameInEachFamily) {
  EXPECT_EQ(not_ready_in({{"rnr_nak_retry_err", 4}, {"out_of_buffer", 9}}), 4u);
  EXPECT_EQ(not_ready_in({{"rcvd_rnr_err", 5}}), 5u);
  EXPECT_EQ(not_ready_in({{"rnr_naks_rcvd", 6}}), 6u);
  EXPECT_EQ(not_ready_in({{"packet_seq_err", 7}}), 0u);
}

TEST(HwCounters, ADeviceThatDoesNotCountRetriesIsNotOneWithoutRetries) {
  EXPECT_EQ(retries_in({}), std::nullopt);
  EXPECT_EQ(retries_in({{"port_xmit_data", 7}}), std::nullopt);
  EXPECT_EQ(retries_in({{"local_ack_timeout_err", 0}}), 0u);
}

TEST(HwCounters, RetriesAreReadFromTheirFilesAlone) {
  Device device;
  EXPECT_EQ(read_retries(device.path(), 1), std::nullopt);
  device.set("hw_counters/completer_retry_err", "8\n");
  EXPECT_EQ(read_retries(device.path(), 1), 8u);
  device.set("hw_counters/rcvd_rnr_err", "1\n");
  EXPECT_EQ(read_retries(device.path(), 1), 9u);
  EXPECT_EQ(read_retries(device.path(), 1), retries_in(read_hw_counters(device.path(), 1)));
}

}  // namespace
}  // namespace twohop::verbs
