#include "other_process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

namespace {

constexpr int kIn = 3;
constexpr int kOut = 4;
constexpr const char* kVariable = "TEST_ROLE";

std::map<std::string, Role>& roles() {
  static std::map<std::string, Role> roles;
  return roles;
}

std::string program() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : testing::internal::GetArgvs().front();
}

// Takes the place of the tests in the other process.
class PlayRole : public testing::Environment {
  void SetUp() override {
    if (const char* const role = std::getenv(kVariable)) {
      Wire wire(kIn, kOut);
      std::exit(roles().at(role)(wire));
    }
  }
};
[[maybe_unused]] testing::Environment* const play_role = testing::AddGlobalTestEnvironment(new PlayRole);

}  // namespace

bool registerRole(const char* name, Role role) {
  return roles().emplace(name, role).second;
}

void Wire::sendBytes(const void* data, std::size_t size) {
  ASSERT_EQ(static_cast<ssize_t>(size), write(out_, data, size));
}

void Wire::receiveBytes(void* data, std::size_t size) {
  auto* at = static_cast<char*>(data);
  while (size != 0) {
    const ssize_t got = read(in_, at, size);
    ASSERT_GT(got, 0) << "the other process has ended";
    at += got;
    size -= static_cast<std::size_t>(got);
  }
}

OtherProcess::OtherProcess(const char* role) {
  signal(SIGPIPE, SIG_IGN);
  int to[2];
  int from[2];
  EXPECT_EQ(0, pipe(to) + pipe(from));
  const std::string path = program();
  process_ = fork();
  if (process_ == 0) {
    // Out of the way of the numbers that they get.
    const int in = dup(dup(dup(to[0])));
    const int out = dup(dup(dup(from[1])));
    dup2(in, kIn);
    dup2(out, kOut);
    for (int descriptor = kOut + 1; descriptor < 64; ++descriptor) {
      close(descriptor);
    }
    setenv(kVariable, role, 1);
    execl(path.c_str(), path.c_str(), "--gtest_brief=1", static_cast<char*>(nullptr));
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  descriptors_[0] = from[0];
  descriptors_[1] = to[1];
  wire_ = Wire(from[0], to[1]);
}

OtherProcess::~OtherProcess() {
  close(descriptors_[1]);
  if (process_ > 0) {
    kill();
  }
  close(descriptors_[0]);
}

int OtherProcess::join() {
  int status = 0;
  EXPECT_EQ(process_, waitpid(process_, &status, 0));
  process_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void OtherProcess::kill() {
  ::kill(process_, SIGKILL);
  join();
}
