// Creating and destroying completion queues and channels; waiting for their events.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "softnic/datapath.hpp"
#include "softnic/verbs_exports.hpp"

namespace softnic {
namespace {

SharedCq* take_cq(Process& process) {
  std::lock_guard guard(process.state()->lock);
  for (uint32_t i = 0; i < kMaxCqs; i++) {
    SharedCq& cq = process.state()->cqs[i];
    if (cq.handle.load() != 0) continue;
    cq.generation = (cq.generation + 1) % (1u << 19);
    cq.handle.store((cq.generation + 1) * kMaxCqs + i);
    cq.owner = process.slot();
    return &cq;
  }
  return nullptr;
}

void reset(SharedCq& cq, uint32_t depth, uint64_t ring, uint32_t pages, const LocalChannel* channel) {
  std::lock_guard guard(cq.lock);
  cq.depth = depth;
  cq.ring = ring;
  cq.pages = pages;
  cq.produced.store(0);
  cq.consumed.store(0);
  cq.armed = kNotArmed;
  cq.overrun.store(0);
  cq.overrun_reported = 0;
  cq.channel_fd = channel ? channel->write_fd : -1;
  cq.channel_id = channel ? channel->id : 0;
}

void count_delivered(void* object) {
  auto* cq = local<LocalCq>(static_cast<ibv_cq*>(object));
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_delivered++;
  pthread_mutex_unlock(&cq->mutex);
}

}  // namespace

LocalChannel* create_channel(LocalContext* context) {
  if (const int refused = context->owner->refusal(Refusal::kCompChannel)) return errno = refused, nullptr;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return nullptr;
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  auto* channel = new LocalChannel{};
  channel->context = context;
  channel->fd = ends[0];
  channel->write_fd = ends[1];
  channel->id = context->owner->state()->next_id.fetch_add(1);
  return channel;
}

int destroy_channel(LocalChannel* channel) {
  if (channel->refcnt != 0) return EBUSY;
  close(channel->fd);
  close(channel->write_fd);
  delete channel;
  return 0;
}

LocalCq* create_cq(LocalContext* context, int depth, void* user, LocalChannel* channel) {
  Process& process = *context->owner;
  if (const int refused = process.refusal(Refusal::kCreateCq)) return errno = refused, nullptr;
  errno = EINVAL;
  if (depth < 1 || static_cast<uint32_t>(depth) > kMaxCqe) return nullptr;
  errno = ENOMEM;
  SharedCq* shared = take_cq(process);
  if (!shared) return nullptr;
  auto pages = static_cast<uint32_t>((static_cast<uint64_t>(depth) * sizeof(Cqe) + kPageBytes - 1) / kPageBytes);
  auto ring = process.domain()->allocate(pages);
  reset(*shared, static_cast<uint32_t>(depth), ring.value_or(0), ring ? pages : 0, channel);
  if (!ring) {
    shared->handle.store(0);
    errno = ENOMEM;
    return nullptr;
  }
  auto* cq = new LocalCq;
  static_cast<ibv_cq&>(*cq) = {};
  cq->context = context;
  cq->channel = channel;
  cq->cq_context = user;
  cq->handle = shared->handle.load();
  cq->cqe = depth;
  pthread_mutex_init(&cq->mutex, nullptr);
  pthread_cond_init(&cq->cond, nullptr);
  cq->process = &process;
  cq->index = static_cast<uint32_t>(shared - process.state()->cqs);
  cq->shared = shared;
  if (channel) channel->refcnt++;
  process.add(cq);
  return cq;
}

int destroy_cq(LocalCq* cq) {
  if (cq->users.load() != 0) return EBUSY;
  cq->process->remove(cq);
  pthread_mutex_lock(&cq->mutex);
  while (cq->comp_events_delivered != cq->comp_events_completed ||
         cq->async_events_delivered != cq->async_events_completed)
    pthread_cond_wait(&cq->cond, &cq->mutex);
  pthread_mutex_unlock(&cq->mutex);
  if (cq->channel) cq->channel->refcnt--;
  uint64_t ring = 0;
  uint32_t pages = 0;
  {
    std::lock_guard guard(cq->shared->lock);
    ring = cq->shared->ring;
    pages = std::exchange(cq->shared->pages, 0);
    cq->shared->channel_fd = -1;
  }
  cq->process->domain()->free(ring, pages);
  cq->shared->handle.store(0);
  pthread_mutex_destroy(&cq->mutex);
  pthread_cond_destroy(&cq->cond);
  delete cq;
  return 0;
}

int get_cq_event(LocalChannel* channel, ibv_cq** cq, void** user) {
  Process& process = *local<LocalContext>(channel->context)->owner;
  for (;;) {
    uint32_t handle = 0;
    ssize_t got = read(channel->fd, &handle, sizeof handle);
    if (got != sizeof handle) return -1;
    *cq = process.find_cq(handle);
    // An event of a queue that was destroyed before it was read is gone with it.
    if (!*cq || !process.visit_live(*cq, count_delivered)) continue;
    *user = (*cq)->cq_context;
    return 0;
  }
}

}  // namespace softnic
