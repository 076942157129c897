// How do counters become files that a tool can read like those of the kernel?
#include "softnic/counters.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

namespace softnic {
namespace {

constexpr size_t kTextBytes = 24;  // spaces, digits, newline
constexpr size_t kTextWords = kTextBytes / sizeof(uint64_t);

constexpr std::string_view kFiles[] = {"hw_counters/sent_pkts",
                                       "hw_counters/rcvd_pkts",
                                       "hw_counters/duplicate_request",
                                       "hw_counters/out_of_seq_request",
                                       "hw_counters/rcvd_rnr_err",
                                       "hw_counters/send_rnr_err",
                                       "hw_counters/rcvd_seq_err",
                                       "hw_counters/retry_exceeded_err",
                                       "hw_counters/retry_rnr_exceeded_err",
                                       "hw_counters/completer_retry_err",
                                       "hw_counters/link_downed",
                                       "hw_counters/rdma_sends",
                                       "hw_counters/rdma_recvs",
                                       "hw_counters/local_ack_timeout_err",
                                       "hw_counters/packet_seq_err",
                                       "hw_counters/out_of_sequence",
                                       "hw_counters/rnr_nak_retry_err",
                                       "hw_counters/out_of_buffer",
                                       "hw_counters/req_remote_access_errors",
                                       "hw_counters/resp_remote_access_errors",
                                       "hw_counters/req_remote_invalid_request",
                                       "hw_counters/req_cqe_error",
                                       "hw_counters/req_cqe_flush_error",
                                       "hw_counters/resp_cqe_error",
                                       "hw_counters/resp_cqe_flush_error",
                                       "hw_counters/rx_write_requests",
                                       "hw_counters/rx_read_requests",
                                       "hw_counters/rx_atomic_requests",
                                       "hw_counters/doorbells",
                                       "counters/port_xmit_data",
                                       "counters/port_rcv_data",
                                       "counters/port_xmit_packets",
                                       "counters/port_rcv_packets"};
static_assert(std::size(kFiles) == kCounters);

uint64_t* map_text(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return nullptr;
  void* text = MAP_FAILED;
  if (posix_fallocate(fd, 0, kTextBytes) == 0)
    text = mmap(nullptr, kTextBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return text == MAP_FAILED ? nullptr : static_cast<uint64_t*>(text);
}

std::array<uint64_t, kTextWords> format(uint64_t value) {
  char text[kTextBytes];
  std::memset(text, ' ', sizeof text);
  size_t at = sizeof text;
  text[--at] = '\n';
  do text[--at] = static_cast<char>('0' + value % 10);
  while ((value /= 10) != 0);
  std::array<uint64_t, kTextWords> words;
  std::memcpy(words.data(), text, sizeof text);
  return words;
}

}  // namespace

std::string_view counter_file(Counter counter) {
  return kFiles[static_cast<unsigned>(counter)];
}

void CounterFiles::open(const std::string& port_folder, CounterValues* values) {
  values_ = values;
  make_folders(port_folder + "/hw_counters");
  make_folders(port_folder + "/counters");
  for (unsigned i = 0; i < kCounters; i++) {
    texts_[i] = map_text(port_folder + "/" + std::string(kFiles[i]));
    publish(i);
  }
}

CounterFiles::~CounterFiles() {
  for (uint64_t* text : texts_)
    if (text) munmap(text, kTextBytes);
}

void CounterFiles::add(Counter counter, uint64_t amount) {
  unsigned index = static_cast<unsigned>(counter);
  if (!values_ || amount == 0) return;
  (*values_)[index].fetch_add(amount, std::memory_order_seq_cst);
  publish(index);
}

// Several processes may write at once: whoever finds that the value moved on writes again, so the last text is right.
void CounterFiles::publish(unsigned index) {
  if (!texts_[index]) return;
  uint64_t value = 0;
  do {
    value = (*values_)[index].load(std::memory_order_seq_cst);
    auto words = format(value);
    for (size_t i = 0; i < kTextWords; i++)
      std::atomic_ref<uint64_t>(texts_[index][i]).store(words[i], std::memory_order_seq_cst);
  } while ((*values_)[index].load(std::memory_order_seq_cst) != value);
}

void make_folders(const std::string& path) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    mkdir(path.substr(0, at).c_str(), 0755);
  mkdir(path.c_str(), 0755);
}

void write_file(const std::string& path, std::string_view text) {
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return;
  [[maybe_unused]] ssize_t written = write(fd, text.data(), text.size());
  close(fd);
}

}  // namespace softnic
