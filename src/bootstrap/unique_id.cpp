// What is in a unique id, and how is one made for a single communicator? By environment: env_unique_id.cpp.
#include "bootstrap/unique_id.hpp"

#include <sodium.h>

#include <cstring>
#include <list>
#include <mutex>

#include "bootstrap/rendezvous.hpp"
#include "bootstrap/service_thread.hpp"
#include "bootstrap/wire.hpp"

namespace twohop {
namespace {

constexpr std::string_view kMagic = "2hop-id";
constexpr uint8_t kVersion = 1;
constexpr size_t kChecksumBytes = 16;
constexpr size_t kChecksumAt = sizeof(twohopUniqueId) - kChecksumBytes;
constexpr size_t kContentBytes = 7 + 1 + 1 + 23 + sizeof(Secret);
static_assert(kContentBytes <= kChecksumAt);

using Checksum = std::array<unsigned char, kChecksumBytes>;

Checksum checksum(const twohopUniqueId& id) {
  Checksum sum;
  crypto_generichash(sum.data(), sum.size(), reinterpret_cast<const unsigned char*>(id.internal), kChecksumAt, nullptr,
                     0);
  return sum;
}

/// The root services of this process; the destructor, at exit, stops those whose ranks never came.
class RootServices {
 public:
  static RootServices& get() {
    static RootServices services;
    return services;
  }
  Result<> start(Fd listener, const Secret& secret, Deadline deadline) {
    const std::lock_guard lock(mutex_);
    running_.remove_if([](const auto& s) { return s->finished(); });
    auto shared = std::make_shared<Fd>(std::move(listener));
    auto thread = ServiceThread::start("twohop-root", [shared, secret, deadline](int stop_fd) {
      serve_rendezvous(std::move(*shared), secret, deadline, stop_fd);
    });
    if (!thread) return thread.error();
    running_.push_back(std::move(*thread));
    return {};
  }

 private:
  std::mutex mutex_;
  std::list<std::unique_ptr<ServiceThread>> running_;
};

}  // namespace

twohopUniqueId encode(const UniqueIdContent& content) {
  Writer w;
  w.raw(std::as_bytes(std::span(kMagic)));
  w.u8(kVersion);
  w.u8(content.shared_port ? 1 : 0);
  w.address(content.root);
  w.raw(std::as_bytes(std::span(content.secret)));
  twohopUniqueId id{};
  std::memcpy(id.internal, w.bytes().data(), w.bytes().size());
  const Checksum sum = checksum(id);
  std::memcpy(id.internal + kChecksumAt, sum.data(), sum.size());
  return id;
}

Result<UniqueIdContent> decode(const twohopUniqueId& id) {
  Reader r(std::as_bytes(std::span(id.internal)).first(kContentBytes));
  const auto magic = r.raw(kMagic.size());
  if (std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0)
    return make_error(twohopInvalidArgument,
                      "the unique id is not one that twohopGetUniqueId made: copy all {} bytes of it to every rank",
                      sizeof id);
  if (const int version = r.u8(); version != kVersion)
    return make_error(twohopInvalidArgument,
                      "the unique id has format version {}, this library reads {}: use one twohop version in all ranks",
                      version, kVersion);
  const Checksum sum = checksum(id);
  if (std::memcmp(id.internal + kChecksumAt, sum.data(), sum.size()) != 0)
    return make_error(twohopInvalidArgument,
                      "the unique id was altered on its way: copy all {} bytes of it to every rank", sizeof id);
  UniqueIdContent content;
  content.shared_port = r.u8() != 0;
  content.root = r.address();
  const auto secret = r.raw(sizeof(Secret));
  if (!r.complete()) return make_error(twohopInvalidArgument, "the unique id holds no usable address");
  std::memcpy(content.secret.data(), secret.data(), secret.size());
  return content;
}

Result<twohopUniqueId> make_unique_id(const Options& options) {
  auto interface = choose_interface(options.socket_ifname);
  if (!interface) return interface.error();
  auto listener = listen_on(interface->address);
  if (!listener) return listener.error();
  auto address = local_address(listener->get());
  if (!address) return address.error();
  const UniqueIdContent content{*address, random_secret()};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(options.init_timeout_s);
  if (auto started = RootServices::get().start(std::move(*listener), content.secret, deadline); !started)
    return started.error();
  return encode(content);
}

}  // namespace twohop
