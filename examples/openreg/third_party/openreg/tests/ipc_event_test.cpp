// Events that two processes share.
#include "other_process.h"

#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

namespace {

constexpr unsigned kShared = orEventInterprocess | orEventDisableTiming;

enum class Command {
  End,
  Query,
  Synchronize,
  StreamSynchronize,
  HoldStream,  // by a gate
  Record,
  OpenGate,
  Wait,  // the stream for the event
  Destroy,
};

// Does what it is told with an event and a stream, and answers each command with an error code.
int obey(Wire& wire) {
  orEvent_t event = nullptr;
  EXPECT_OK(orIpcOpenEventHandle(&event, wire.receive<orIpcEventHandle_t>()));
  orIpcEventHandle_t handle;
  EXPECT_OK(orIpcGetEventHandle(&handle, event));
  orEvent_t again = nullptr;
  EXPECT_OK(orIpcOpenEventHandle(&again, handle));
  EXPECT_NE(event, again);
  EXPECT_OK(orEventDestroy(again));
  const StreamGuard stream;
  auto gate = std::make_unique<Gate>();
  while (true) {
    orError_t answer = orSuccess;
    switch (wire.receive<Command>()) {
      case Command::End:
        return testing::Test::HasFailure();
      case Command::Query:
        answer = orEventQuery(event);
        break;
      case Command::Synchronize:
        answer = orEventSynchronize(event);
        break;
      case Command::StreamSynchronize:
        answer = orStreamSynchronize(stream);
        break;
      case Command::HoldStream:
        gate->block(stream);
        break;
      case Command::Record:
        answer = orEventRecord(event, stream);
        break;
      case Command::OpenGate:
        gate = std::make_unique<Gate>();
        break;
      case Command::Wait:
        answer = orStreamWaitEvent(stream, event, 0);
        break;
      case Command::Destroy:
        answer = orEventDestroy(event);
        break;
    }
    wire.send(answer);
  }
}

const bool registered = registerRole("obey", obey);

class IpcEvent : public testing::Test {
 protected:
  void SetUp() override {
    orIpcEventHandle_t handle;
    ASSERT_OK(orIpcGetEventHandle(&handle, event_));
    other_.wire().send(handle);
  }

  void order(Command command) { other_.wire().send(command); }
  orError_t answer() { return other_.wire().receive<orError_t>(); }
  orError_t tell(Command command) {
    order(command);
    return answer();
  }
  void end() {
    order(Command::End);
    EXPECT_EQ(0, other_.join());
  }

  OtherProcess other_{"obey"};
  EventGuard event_{kShared};
  StreamGuard stream_;
};

}  // namespace

TEST_F(IpcEvent, IsCompleteUntilRecorded) {
  EXPECT_EQ(orSuccess, tell(Command::Query));
  EXPECT_EQ(orSuccess, tell(Command::Synchronize));
  EXPECT_EQ(orSuccess, tell(Command::Wait));
  EXPECT_OK(orEventRecord(event_, stream_));  // of an idle stream
  EXPECT_EQ(orSuccess, tell(Command::Query));
  EXPECT_EQ(orSuccess, tell(Command::Record));
  EXPECT_EQ(orSuccess, tell(Command::StreamSynchronize));
  EXPECT_OK(orEventSynchronize(event_));
  EXPECT_OK(orEventQuery(event_));
  end();
}

TEST_F(IpcEvent, OtherProcessWaits) {
  SKIP_IF_BLOCKING();
  Gate gate;
  gate.block(stream_);
  EXPECT_OK(orEventRecord(event_, stream_));
  EXPECT_EQ(orErrorNotReady, tell(Command::Query));
  EXPECT_EQ(orSuccess, tell(Command::Wait));
  order(Command::StreamSynchronize);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(orErrorNotReady, orEventQuery(event_));
  gate.open();
  EXPECT_EQ(orSuccess, answer());
  EXPECT_EQ(orSuccess, tell(Command::Query));
  EXPECT_OK(orEventSynchronize(event_));
  end();
}

TEST_F(IpcEvent, OtherProcessRecords) {
  SKIP_IF_BLOCKING();
  EXPECT_EQ(orSuccess, tell(Command::HoldStream));
  EXPECT_EQ(orSuccess, tell(Command::Record));
  EXPECT_EQ(orErrorNotReady, orEventQuery(event_));
  EXPECT_OK(orStreamWaitEvent(stream_, event_, 0));
  bool ran = false;
  EXPECT_OK(orLaunchHostFunc([](void* ran) { *static_cast<bool*>(ran) = true; }, &ran, stream_));
  EXPECT_EQ(orErrorNotReady, orStreamQuery(stream_));
  EXPECT_EQ(orSuccess, tell(Command::OpenGate));
  EXPECT_OK(orEventSynchronize(event_));
  EXPECT_OK(orEventQuery(event_));
  EXPECT_OK(orStreamSynchronize(stream_));
  EXPECT_TRUE(ran);
  // A wait is for what was recorded before it, and a later recording is a new one.
  EXPECT_EQ(orSuccess, tell(Command::HoldStream));
  EXPECT_EQ(orSuccess, tell(Command::Record));
  EXPECT_EQ(orErrorNotReady, orEventQuery(event_));
  EXPECT_OK(orEventRecord(event_, stream_));
  EXPECT_OK(orEventSynchronize(event_));
  EXPECT_EQ(orSuccess, tell(Command::Query));
  EXPECT_EQ(orSuccess, tell(Command::OpenGate));
  end();
}

TEST_F(IpcEvent, RecordingsAreToldApart) {
  SKIP_IF_BLOCKING();
  // The older recording is the later one to be complete.
  Gate gate;
  gate.block(stream_);
  EXPECT_OK(orEventRecord(event_, stream_));
  EXPECT_EQ(orSuccess, tell(Command::Wait));
  const StreamGuard fast;
  EXPECT_OK(orEventRecord(event_, fast));
  EXPECT_EQ(orSuccess, tell(Command::Query));
  order(Command::StreamSynchronize);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  gate.open();
  EXPECT_EQ(orSuccess, answer());
  end();
}

TEST_F(IpcEvent, TooManyPendingRecordings) {
  SKIP_IF_BLOCKING();
  Gate gate;
  gate.block(stream_);
  for (int i = 0; i < 16; ++i) {
    EXPECT_OK(orEventRecord(event_, stream_));
  }
  EXPECT_EQ(orErrorNotSupported, orEventRecord(event_, stream_));
  EXPECT_EQ(orErrorNotReady, tell(Command::Query));
  gate.open();
  EXPECT_OK(orEventSynchronize(event_));
  for (int i = 0; i < 100; ++i) {
    EXPECT_OK(orEventRecord(event_, stream_));
  }
  EXPECT_EQ(orSuccess, tell(Command::Synchronize));
  end();
}

TEST_F(IpcEvent, ProcessThatRecordedEnds) {
  SKIP_IF_BLOCKING();
  EXPECT_EQ(orSuccess, tell(Command::HoldStream));
  EXPECT_EQ(orSuccess, tell(Command::Record));
  EXPECT_OK(orStreamWaitEvent(stream_, event_, 0));
  EXPECT_EQ(orErrorNotReady, orStreamQuery(stream_));
  other_.kill();
  EXPECT_OK(orStreamSynchronize(stream_));
  EXPECT_EQ(orErrorLaunchFailure, orEventSynchronize(event_));
  EXPECT_NE(nullptr, std::strstr(orGetLastErrorMessage(), "has ended")) << orGetLastErrorMessage();
  EXPECT_OK(orEventRecord(event_, stream_));
  EXPECT_OK(orEventSynchronize(event_));
}

TEST_F(IpcEvent, DestroyedByTheOneThatMadeIt) {
  SKIP_IF_BLOCKING();
  const EventGuard keep_the_slot(kShared);
  {
    OtherProcess other("obey");
    auto event = std::make_unique<EventGuard>(kShared);
    orIpcEventHandle_t handle;
    ASSERT_OK(orIpcGetEventHandle(&handle, *event));
    other.wire().send(handle);
    Gate gate;
    gate.block(stream_);
    EXPECT_OK(orEventRecord(*event, stream_));
    other.wire().send(Command::Query);
    EXPECT_EQ(orErrorNotReady, other.wire().receive<orError_t>());
    event.reset();
    gate.open();
    EXPECT_OK(orStreamSynchronize(stream_));
    other.wire().send(Command::Synchronize);
    EXPECT_EQ(orSuccess, other.wire().receive<orError_t>());
    // The slot is in use again; the stale view neither sees nor disturbs that.
    const EventGuard next(kShared);
    ASSERT_OK(orIpcGetEventHandle(&handle, next));
    other.wire().send(Command::Record);
    EXPECT_EQ(orErrorInvalidHandle, other.wire().receive<orError_t>());
    EXPECT_OK(orEventQuery(next));
    other.wire().send(Command::End);
    EXPECT_EQ(0, other.join());
  }
  end();
}

TEST_F(IpcEvent, EventThatIsPendingWhenItIsShared) {
  SKIP_IF_BLOCKING();
  const EventGuard event(kShared);
  Gate gate;
  gate.block(stream_);
  EXPECT_OK(orEventRecord(event, stream_));
  OtherProcess other("obey");
  orIpcEventHandle_t handle;
  ASSERT_OK(orIpcGetEventHandle(&handle, event));
  other.wire().send(handle);
  other.wire().send(Command::Query);
  EXPECT_EQ(orErrorNotReady, other.wire().receive<orError_t>());
  gate.open();
  other.wire().send(Command::Synchronize);
  EXPECT_EQ(orSuccess, other.wire().receive<orError_t>());
  other.wire().send(Command::End);
  EXPECT_EQ(0, other.join());
  end();
}

TEST(IpcEventHandle, Errors) {
  const EventGuard local;
  const EventGuard shared(kShared);
  orIpcEventHandle_t handle;
  EXPECT_EQ(orErrorInvalidValue, orIpcGetEventHandle(&handle, local));
  EXPECT_EQ(orErrorInvalidValue, orIpcGetEventHandle(nullptr, shared));
  EXPECT_EQ(orErrorInvalidHandle, orIpcGetEventHandle(&handle, nullptr));
  EXPECT_OK(orIpcGetEventHandle(&handle, shared));
  orEvent_t event = nullptr;
  EXPECT_EQ(orErrorNotSupported, orIpcOpenEventHandle(&event, handle));
  EXPECT_EQ(orErrorInvalidHandle, orIpcOpenEventHandle(&event, orIpcEventHandle_t{}));
  const DeviceMemory memory(64);
  orIpcMemHandle_t of_memory;
  EXPECT_OK(orIpcGetMemHandle(&of_memory, memory.pointer));
  std::memcpy(&handle, &of_memory, sizeof(handle));
  EXPECT_EQ(orErrorInvalidHandle, orIpcOpenEventHandle(&event, handle));
  float milliseconds = 0;
  EXPECT_EQ(orErrorInvalidValue, orEventElapsedTime(&milliseconds, shared, shared));
}
