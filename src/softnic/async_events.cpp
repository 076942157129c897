// How does an application hear of what happens beside its requests: a port going down, a broken queue?
#include <unistd.h>

#include <cerrno>

#include "softnic/datapath.hpp"
#include "softnic/verbs_exports.hpp"

namespace softnic {
namespace {

struct Message {
  uint32_t type;
  uint32_t reserved;
  void* object;
};

bool concerns_cq(uint32_t type) {
  return type == IBV_EVENT_CQ_ERR;
}
bool concerns_port(uint32_t type) {
  return type >= IBV_EVENT_PORT_ACTIVE && type <= IBV_EVENT_SM_CHANGE;
}

// The object's destruction waits until what was delivered has been acknowledged.
void count_delivered(void* object) {
  auto* qp = local<LocalQp>(static_cast<ibv_qp*>(object));
  pthread_mutex_lock(&qp->mutex);
  qp->async_events_delivered++;
  pthread_mutex_unlock(&qp->mutex);
}

void count_cq_delivered(void* object) {
  auto* cq = local<LocalCq>(static_cast<ibv_cq*>(object));
  pthread_mutex_lock(&cq->mutex);
  cq->async_events_delivered++;
  pthread_mutex_unlock(&cq->mutex);
}

}  // namespace

void report_event(LocalContext* context, ibv_event_type type, void* object) {
  Message message{static_cast<uint32_t>(type), 0, object};
  [[maybe_unused]] ssize_t written = write(context->async_write_fd, &message, sizeof message);
}

int get_async_event(LocalContext* context, ibv_async_event* event) {
  for (;;) {
    Message message{};
    ssize_t got = read(context->async_fd, &message, sizeof message);
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof message) return -1;
    event->event_type = static_cast<ibv_event_type>(message.type);
    if (concerns_port(message.type)) {
      event->element.port_num = 1;
      return 0;
    }
    // The object may have been destroyed since: then the event is gone too.
    bool cq = concerns_cq(message.type);
    if (!context->owner->visit_live(message.object, cq ? count_cq_delivered : count_delivered)) continue;
    if (cq)
      event->element.cq = static_cast<ibv_cq*>(message.object);
    else
      event->element.qp = static_cast<ibv_qp*>(message.object);
    return 0;
  }
}

void acknowledge_async_event(const ibv_async_event* event) {
  if (concerns_port(event->event_type)) return;
  if (concerns_cq(event->event_type)) {
    ibv_cq* cq = event->element.cq;
    pthread_mutex_lock(&cq->mutex);
    cq->async_events_completed++;
    pthread_cond_signal(&cq->cond);
    pthread_mutex_unlock(&cq->mutex);
    return;
  }
  ibv_qp* qp = event->element.qp;
  pthread_mutex_lock(&qp->mutex);
  qp->events_completed++;
  pthread_cond_signal(&qp->cond);
  pthread_mutex_unlock(&qp->mutex);
}

}  // namespace softnic
