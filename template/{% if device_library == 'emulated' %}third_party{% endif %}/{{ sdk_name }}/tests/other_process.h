// A second process that runs a function of this program, and a pipe to it.
#pragma once

#include <string>

#include <sys/types.h>

#include "support.h"

// What the other process runs; `wire` is its end. Its exit code is what it returns.
class Wire {
 public:
  Wire(int in, int out) : in_(in), out_(out) {}

  template <class T>
  void send(const T& value) {
    sendBytes(&value, sizeof(value));
  }
  template <class T>
  T receive() {
    T value{};
    receiveBytes(&value, sizeof(value));
    return value;
  }

  // Nothing but being in step.
  void signal() { send('s'); }
  void await() { receive<char>(); }

 private:
  void sendBytes(const void* data, std::size_t size);
  void receiveBytes(void* data, std::size_t size);

  int in_;
  int out_;
};

using Role = int (*)(Wire& wire);

class OtherProcess {
 public:
  // `role` is a name given to registerRole.
  explicit OtherProcess(const char* role);
  ~OtherProcess();
  OtherProcess(const OtherProcess&) = delete;

  Wire& wire() { return wire_; }
  int join();  // exit code, or minus the signal
  void kill();  // and join

 private:
  Wire wire_{-1, -1};
  int descriptors_[2] = {-1, -1};
  pid_t process_ = -1;
};

bool registerRole(const char* name, Role role);
