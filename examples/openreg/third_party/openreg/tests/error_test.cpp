#include "support.h"

#include <cstring>
#include <string_view>
#include <thread>

extern "C" int headerIsC(void);

TEST(Error, NamesAndTexts) {
  EXPECT_STREQ("orSuccess", orGetErrorName(orSuccess));
  EXPECT_STREQ("orErrorForked", orGetErrorName(orErrorForked));
  EXPECT_STREQ("unknown error code", orGetErrorName(static_cast<orError_t>(500)));
  EXPECT_NE(nullptr, std::strstr(orGetErrorString(orErrorForked), "spawn"));
  for (const int code : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 999, 500}) {
    EXPECT_GT(std::string_view(orGetErrorString(static_cast<orError_t>(code))).size(), 5u);
  }
}

TEST(Error, LastErrorIsKeptUntilAsked) {
  orGetLastError();
  EXPECT_EQ(orErrorInvalidDevice, orSetDevice(-1));
  int device = 7;
  EXPECT_OK(orGetDevice(&device));  // success does not erase it
  EXPECT_EQ(orErrorInvalidDevice, orPeekAtLastError());
  EXPECT_EQ(orErrorInvalidDevice, orGetLastError());
  EXPECT_EQ(orSuccess, orGetLastError());
  EXPECT_EQ(orSuccess, orPeekAtLastError());
}

TEST(Error, LastErrorBelongsToTheThread) {
  orGetLastError();
  EXPECT_EQ(orErrorInvalidDevice, orSetDevice(-1));
  std::thread([] {
    EXPECT_EQ(orSuccess, orPeekAtLastError());
    EXPECT_STREQ("", orGetLastErrorMessage());
  }).join();
  EXPECT_EQ(orErrorInvalidDevice, orGetLastError());
}

TEST(Error, MessageSaysWhereAndWhat) {
  EXPECT_EQ(orErrorInvalidDevice, orSetDevice(99));
  const std::string message = orGetLastErrorMessage();
  EXPECT_EQ(0u, message.find("orSetDevice: ")) << message;
  EXPECT_NE(std::string::npos, message.find("99")) << message;
  EXPECT_EQ(orErrorInvalidValue, orGetDevice(nullptr));
  EXPECT_NE(std::string::npos, std::string(orGetLastErrorMessage()).find("'device' is null"));
}

TEST(Error, NotReadyIsNotAFailure) {
  SKIP_IF_BLOCKING();
  orGetLastError();
  Gate gate;
  gate.block(nullptr);
  EXPECT_EQ(orErrorNotReady, orStreamQuery(nullptr));
  EXPECT_EQ(orSuccess, orPeekAtLastError());
  gate.open();
  EXPECT_OK(orStreamSynchronize(nullptr));
}

TEST(Error, HeaderIsC) {
  EXPECT_EQ(1, headerIsC());
}
