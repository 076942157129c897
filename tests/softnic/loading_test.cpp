// Can a program load softnic as it loads libibverbs: by path, with dlvsym and the versions it was built against?
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "fabric.hpp"

namespace softnic_test {
namespace {

TEST(Loading, ByPathFindsEveryVersionThatProgramsAskFor) {
  void* library = dlopen(SOFTNIC_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const std::pair<const char*, const char*> wanted[] = {{"ibv_get_device_list", "IBVERBS_1.1"},
                                                        {"ibv_open_device", "IBVERBS_1.1"},
                                                        {"ibv_create_comp_channel", "IBVERBS_1.0"},
                                                        {"ibv_reg_mr", "IBVERBS_1.1"},
                                                        {"ibv_reg_mr_iova2", "IBVERBS_1.8"},
                                                        {"_ibv_query_gid_ex", "IBVERBS_1.11"},
                                                        {"ibv_query_gid_type", "IBVERBS_PRIVATE_34"},
                                                        {"ibv_reg_dmabuf_mr", "IBVERBS_1.12"},
                                                        {"ibv_query_ece", "IBVERBS_1.10"},
                                                        {"softnic_counter", "SOFTNIC_1.0"}};
  for (auto [name, version] : wanted) EXPECT_NE(dlvsym(library, name, version), nullptr) << name << "@" << version;
  dlclose(library);
}

TEST(Loading, WhatIsNotEmulatedSaysSo) {
  use_settings();
  End end;
  ibv_srq_init_attr srq{};
  EXPECT_EQ(ibv_create_srq(end.pd, &srq), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_cq_init_attr_ex cq{};
  EXPECT_EQ(ibv_create_cq_ex(end.context, &cq), nullptr);
  ibv_qp_init_attr datagram{};
  datagram.send_cq = datagram.recv_cq = end.cq;
  datagram.qp_type = IBV_QPT_UD;
  EXPECT_EQ(ibv_create_qp(end.pd, &datagram), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

// As a process does that was stopped while it prepared the domain.
TEST(Loading, DoesNotWaitForEverForTheLockOfADomain) {
  const std::string domain = "held-" + std::to_string(::getpid());
  const std::string folder = "/dev/shm/softnic-" + std::to_string(::getuid()) + "-" + domain;
  // Under another name until it is locked: who joins a domain removes those that nobody holds.
  const std::string unlocked = "/dev/shm/" + domain;
  std::filesystem::create_directory(unlocked);
  const int fd = ::open((unlocked + "/state").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  std::filesystem::rename(unlocked, folder);
  ::setenv("SOFTNIC", ("domain=" + domain).c_str(), 1);
  int devices = -1;
  EXPECT_EQ(ibv_get_device_list(&devices), nullptr);
  use_settings();
  ::close(fd);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace softnic_test
