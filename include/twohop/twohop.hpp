// twohop in C++20: owners of the C API's handles, and collectives on ranges whose element type gives the datatype.
//
// A thin face over twohop.h, header only. Every failure is thrown as twohop::Exception, which carries the result code
// and the library's full explanation. Objects are move-only and free what they hold; threads and ownership of buffers
// are as twohop.h says.
//
//   twohop::Comm comm = twohop::Comm::from_env();
//   std::vector<float> gradients = ...;
//   comm.all_reduce(gradients, twohopAvg);   // in place, blocks until done
#ifndef TWOHOP_TWOHOP_HPP_
#define TWOHOP_TWOHOP_HPP_

#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "twohop/twohop.h"

namespace twohop {
inline namespace face {  // its symbols never meet those of the library's inside

/// A failed call: code() says what kind, what() is twohopGetLastError's text.
class Exception : public std::runtime_error {
 public:
  Exception(twohopResult_t code, const std::string& text) : std::runtime_error(text), code_(code) {}
  twohopResult_t code() const noexcept { return code_; }

 private:
  twohopResult_t code_;
};

/// Throws unless result is twohopSuccess. `comm` is the communicator to ask for the explanation, if there is one.
inline void check(twohopResult_t result, twohopComm_t comm = nullptr) {
  if (result == twohopSuccess) return;
  std::string text = twohopGetLastError(nullptr);  // of this thread's call; else what the communicator failed of
  if (text.empty() && comm) text = twohopGetLastError(comm);
  throw Exception(result, text.empty() ? twohopGetErrorString(result) : text);
}

/// The datatype of an element type. Specialise it for a half, bfloat16 or fp8 type of your own:
///   template <> inline constexpr twohopDataType_t twohop::kDataType<my_bf16> = twohopBfloat16;
template <class T>
inline constexpr twohopDataType_t kDataType = [] {
  static_assert(!std::is_same_v<T, bool>, "a sum of bools is no bool: use unsigned char, or max for a logical or");
  static_assert(std::is_integral_v<T> && (sizeof(T) == 1 || sizeof(T) == 4 || sizeof(T) == 8),
                "no twohop datatype for this element type: specialise twohop::kDataType");
  constexpr bool is_signed = std::is_signed_v<T>;
  if constexpr (sizeof(T) == 1) return is_signed ? twohopInt8 : twohopUint8;
  if constexpr (sizeof(T) == 4) return is_signed ? twohopInt32 : twohopUint32;
  return is_signed ? twohopInt64 : twohopUint64;
}();
template <>
inline constexpr twohopDataType_t kDataType<float> = twohopFloat32;
template <>
inline constexpr twohopDataType_t kDataType<double> = twohopFloat64;

/// A contiguous range of elements: std::vector, std::array, std::span, ...
template <class R>
concept Buffer = std::ranges::contiguous_range<R> && std::ranges::sized_range<R>;
template <class R>
using ElementOf = std::remove_cv_t<std::ranges::range_value_t<R>>;
/// A buffer that can be written, of the element type of Send.
template <class R, class Send>
concept BufferLike = Buffer<R> && std::is_same_v<ElementOf<R>, ElementOf<Send>> &&
    !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

/// A thread that runs collectives in order while the caller goes on. Give it to a collective in place of nullptr.
class Stream {
 public:
  Stream() { check(twohopStreamCreate(&stream_)); }
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Stream() {
    if (stream_) (void)twohopStreamDestroy(stream_);
  }

  /// Waits until everything given so far is done; throws the first error among it.
  void synchronize() { check(twohopStreamSynchronize(stream_)); }
  /// True when nothing is running or waiting.
  bool idle() const {
    twohopResult_t state = twohopStreamQuery(stream_);
    if (state != twohopInProgress) check(state);
    return state == twohopSuccess;
  }
  twohopStream_t get() const noexcept { return stream_; }
  operator twohopStream_t() const noexcept { return stream_; }

 private:
  twohopStream_t stream_ = nullptr;
};

namespace detail {
/// Frees a communicator. At a stable address, since inside a group the library fills it in at the group's end.
struct CommHandle {
  twohopComm_t comm = nullptr;
  CommHandle() = default;
  CommHandle(const CommHandle&) = delete;
  CommHandle& operator=(const CommHandle&) = delete;
  ~CommHandle() { (void)twohopCommDestroy(comm); }
};
/// The groups open in this thread, and the communicators that are being made in them.
struct OpenGroups {
  int depth = 0;
  std::vector<std::shared_ptr<CommHandle>> pending;
};
inline OpenGroups& open_groups() {
  thread_local OpenGroups groups;
  return groups;
}
}  // namespace detail

/// Calls made while it lives do not block; end() runs them all together and throws their first error. Without end()
/// (an exception passes, say) the destructor runs them and drops their errors. Stays in the thread that made it.
class Group {
 public:
  Group() {
    check(twohopGroupStart());
    ++detail::open_groups().depth;
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() {
    if (open_) (void)close();
  }
  void end() { check(close()); }

 private:
  twohopResult_t close() {
    open_ = false;
    twohopResult_t result = twohopGroupEnd();
    detail::OpenGroups& groups = detail::open_groups();
    if (--groups.depth == 0) std::exchange(groups.pending, {});
    return result;
  }

  bool open_ = true;
};

/// A communicator of one rank.
class Comm {
 public:
  /// An id for one communicator; see twohopGetUniqueId.
  static twohopUniqueId unique_id() {
    twohopUniqueId id;
    check(twohopGetUniqueId(&id));
    return id;
  }

  /// Joins as `rank` of `nranks`. Inside a Group it is usable after the group's end.
  Comm(int nranks, const twohopUniqueId& id, int rank, const twohopConfig_t& config = TWOHOP_CONFIG_INITIALIZER)
      : Comm() {
    check(twohopCommInitRankConfig(&handle_->comm, nranks, id, rank, &config));
  }
  /// Joins as the launcher's variables say; see twohopCommInitEnv.
  static Comm from_env(const twohopConfig_t& config = TWOHOP_CONFIG_INITIALIZER) {
    Comm comm;
    check(twohopCommInitEnv(&comm.handle_->comm, &config));
    return comm;
  }
  /// Takes over a handle made by the C API (twohopCommInitMpi, say).
  explicit Comm(twohopComm_t comm) : handle_(std::make_shared<detail::CommHandle>()) { handle_->comm = comm; }
  Comm(Comm&&) noexcept = default;
  Comm& operator=(Comm&&) noexcept = default;

  int rank() const {
    int rank = 0;
    check(twohopCommUserRank(get(), &rank), get());
    return rank;
  }
  int size() const {
    int size = 0;
    check(twohopCommCount(get(), &size), get());
    return size;
  }
  twohopShape_t shape() const {
    twohopShape_t shape;
    check(twohopCommShape(get(), &shape), get());
    return shape;
  }
  twohopCounters_t counters() const {
    twohopCounters_t counters{};
    counters.size = sizeof(counters);
    check(twohopCommGetCounters(get(), &counters), get());
    return counters;
  }
  /// Ends every pending and later call, on all ranks; any thread.
  void abort() { check(twohopCommAbort(get()), get()); }
  /// twohopSuccess while healthy; never throws for what the communicator has failed of.
  twohopResult_t async_error() const {
    twohopResult_t state = twohopSuccess;
    check(twohopCommGetAsyncError(get(), &state), get());
    return state;
  }
  twohopComm_t get() const noexcept { return handle_ ? handle_->comm : nullptr; }

  /// In place.
  template <Buffer R>
  requires BufferLike<R, R>
  void all_reduce(R&& data, twohopRedOp_t op = twohopSum, twohopStream_t stream = nullptr) {
    all_reduce(data, data, op, stream);
  }
  /// recv[i] = op over all ranks of send[i]; both of the same length.
  template <Buffer S, BufferLike<S> R>
  void all_reduce(const S& send, R&& recv, twohopRedOp_t op = twohopSum, twohopStream_t stream = nullptr) {
    require(std::ranges::size(send) == std::ranges::size(recv), "all_reduce: send and recv differ in length");
    check(twohopAllReduce(std::ranges::data(send), std::ranges::data(recv), std::ranges::size(recv),
                          kDataType<ElementOf<S>>, op, get(), stream),
          get());
  }
  /// Rank r gets the reduction of block r: send is size() times as long as recv.
  template <Buffer S, BufferLike<S> R>
  void reduce_scatter(const S& send, R&& recv, twohopRedOp_t op = twohopSum, twohopStream_t stream = nullptr) {
    require(std::ranges::size(send) == std::ranges::size(recv) * static_cast<size_t>(size()),
            "reduce_scatter: send is not as long as recv times the number of ranks");
    check(twohopReduceScatter(std::ranges::data(send), std::ranges::data(recv), std::ranges::size(recv),
                              kDataType<ElementOf<S>>, op, get(), stream),
          get());
  }
  /// Block r of recv is rank r's send: recv is size() times as long as send.
  template <Buffer S, BufferLike<S> R>
  void all_gather(const S& send, R&& recv, twohopStream_t stream = nullptr) {
    require(std::ranges::size(recv) == std::ranges::size(send) * static_cast<size_t>(size()),
            "all_gather: recv is not as long as send times the number of ranks");
    check(twohopAllGather(std::ranges::data(send), std::ranges::data(recv), std::ranges::size(send),
                          kDataType<ElementOf<S>>, get(), stream),
          get());
  }
  /// In place: data of every rank becomes root's.
  template <Buffer R>
  requires BufferLike<R, R>
  void broadcast(R&& data, int root, twohopStream_t stream = nullptr) {
    check(twohopBroadcast(std::ranges::data(data), std::ranges::data(data), std::ranges::size(data),
                          kDataType<ElementOf<R>>, root, get(), stream),
          get());
  }
  void barrier(twohopStream_t stream = nullptr) { check(twohopBarrier(get(), stream), get()); }

 private:
  Comm() : handle_(std::make_shared<detail::CommHandle>()) {
    if (detail::open_groups().depth > 0) detail::open_groups().pending.push_back(handle_);
  }
  static void require(bool condition, const char* text) {
    if (!condition) throw Exception(twohopInvalidArgument, text);
  }

  std::shared_ptr<detail::CommHandle> handle_;  // shared only with a group that is still open
};

/// An operation that multiplies this rank's contribution by `scalar` and sums. Must not outlive its communicator.
class RedOp {
 public:
  template <class T>
  RedOp(const Comm& comm, const T& scalar) : comm_(comm.get()) {
    check(twohopRedOpCreatePreMulSum(&op_, &scalar, kDataType<T>, comm_), comm_);
  }
  RedOp(RedOp&& other) noexcept : op_(other.op_), comm_(std::exchange(other.comm_, nullptr)) {}
  RedOp& operator=(RedOp&& other) noexcept {
    std::swap(op_, other.op_);
    std::swap(comm_, other.comm_);
    return *this;
  }
  ~RedOp() {
    if (comm_) (void)twohopRedOpDestroy(op_, comm_);
  }
  operator twohopRedOp_t() const noexcept { return op_; }

 private:
  twohopRedOp_t op_ = twohopSum;
  twohopComm_t comm_ = nullptr;
};

/// Memory that comm uses without staging while this lives; see twohopCommRegister, also for how ranks make and end
/// registrations of device memory together. Must not outlive its communicator nor the memory.
class Registration {
 public:
  Registration(const Comm& comm, void* memory, size_t bytes) : comm_(comm.get()) {
    check(twohopCommRegister(comm_, memory, bytes, &handle_), comm_);
  }
  Registration(Registration&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)), handle_(other.handle_) {}
  Registration& operator=(Registration&& other) noexcept {
    std::swap(comm_, other.comm_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Registration() {
    if (comm_) (void)twohopCommDeregister(comm_, handle_);
  }

 private:
  twohopComm_t comm_ = nullptr;
  void* handle_ = nullptr;
};

/// `size` zeroed elements in memory that suits registration.
template <class T, twohopResult_t (*kAllocate)(void**, size_t)>
class Memory {
 public:
  explicit Memory(size_t size) : size_(size) {
    void* memory = nullptr;
    check(kAllocate(&memory, size * sizeof(T)));
    data_ = static_cast<T*>(memory);
  }
  Memory(Memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Memory() { (void)twohopMemFree(data_); }
  T* data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

/// Of the host (twohopMemAlloc).
template <class T>
class HostMemory : public Memory<T, twohopMemAlloc> {
 public:
  using Memory<T, twohopMemAlloc>::Memory;
  T* begin() const noexcept { return this->data(); }
  T* end() const noexcept { return this->data() + this->size(); }
};

/// Of the GPU that is current in this thread (twohopMemAllocDevice); not for the CPU to touch.
template <class T>
class DeviceMemory : public Memory<T, twohopMemAllocDevice> {
 public:
  using Memory<T, twohopMemAllocDevice>::Memory;
};

}  // namespace face
}  // namespace twohop

#endif  // TWOHOP_TWOHOP_HPP_
