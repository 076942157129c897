// What happens when the n-th call of some system function of a process is its last, or fails? Preloaded into one rank
// of a job by faults.py:
//
//   FAULT_CALL=connect:2:kill     at its second connect() the process is killed (stop: stopped; exit: ends)
//   FAULT_CALL=any:17:kill        at the 17th call of any of the functions below
//   FAULT_CALL=memfd_create:1:28  the first one fails with that errno
//   FAULT_CALL=link:1:kill        at the first connect() or accept4() of a data connection: of IP, and after a memfd
//   FAULT_CALL=sendmsg:9:cut      the socket of the ninth is shut down, as when a connection breaks
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static char g_function[32], g_action[16];
static long g_nth;
static atomic_long g_calls, g_memfds;

__attribute__((constructor)) static void read_settings(void) {
  const char* text = getenv("FAULT_CALL");
  if (text == NULL || sscanf(text, "%31[^:]:%ld:%15s", g_function, &g_nth, g_action) != 3) g_nth = -1;
}

// Of sockets that are made once this process has windows, only those between ranks are of IP.
static int makes_link(const char* function, int fd) {
  struct sockaddr_storage a;
  socklen_t n = sizeof a;
  if (strcmp(function, "connect") != 0 && strcmp(function, "accept4") != 0) return 0;
  return g_memfds > 0 && getsockname(fd, (struct sockaddr*)&a, &n) == 0 && a.ss_family != AF_UNIX;
}

static int is_meant(const char* function, int fd) {
  if (strcmp(g_function, "link") == 0) return makes_link(function, fd);
  return strcmp(g_function, "any") == 0 || strcmp(g_function, function) == 0;
}

// Whether the call must fail, with errno set.
static int fault(const char* function, int fd) {
  if (strcmp(function, "memfd_create") == 0) atomic_fetch_add(&g_memfds, 1);
  if (g_nth < 0 || !is_meant(function, fd)) return 0;
  if (atomic_fetch_add(&g_calls, 1) + 1 != g_nth) return 0;
  if (strcmp(g_action, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(g_action, "stop") == 0) kill(getpid(), SIGSTOP);
  if (strcmp(g_action, "exit") == 0) _exit(0);
  if (strcmp(g_action, "cut") == 0 && fd >= 0) shutdown(fd, SHUT_RDWR);
  if (g_action[0] < '0' || g_action[0] > '9') return 0;
  errno = atoi(g_action);
  return 1;
}

#define SHIM(type, name, parameters, arguments, fd, failed)     \
  type name parameters {                                        \
    static type(*real) parameters;                              \
    if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, #name); \
    return fault(#name, fd) ? failed : real arguments;          \
  }

SHIM(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1, -1)
SHIM(int, bind, (int fd, const struct sockaddr* a, socklen_t n), (fd, a, n), fd, -1)
SHIM(int, listen, (int fd, int backlog), (fd, backlog), fd, -1)
SHIM(int, connect, (int fd, const struct sockaddr* a, socklen_t n), (fd, a, n), fd, -1)
SHIM(int, accept4, (int fd, struct sockaddr* a, socklen_t* n, int flags), (fd, a, n, flags), fd, -1)
SHIM(ssize_t, send, (int fd, const void* data, size_t n, int flags), (fd, data, n, flags), fd, -1)
SHIM(ssize_t, recv, (int fd, void* data, size_t n, int flags), (fd, data, n, flags), fd, -1)
SHIM(ssize_t, sendmsg, (int fd, const struct msghdr* m, int flags), (fd, m, flags), fd, -1)
SHIM(ssize_t, recvmsg, (int fd, struct msghdr* m, int flags), (fd, m, flags), fd, -1)
SHIM(int, eventfd, (unsigned count, int flags), (count, flags), -1, -1)
SHIM(int, epoll_create1, (int flags), (flags), -1, -1)
SHIM(int, memfd_create, (const char* name, unsigned flags), (name, flags), -1, -1)
SHIM(int, ftruncate, (int fd, off_t length), (fd, length), fd, -1)
