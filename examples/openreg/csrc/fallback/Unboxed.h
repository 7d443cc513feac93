#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "fallback/Call.h"
#include "fallback/Fallback.h"
#include "fallback/OperatorOrigin.h"
#include "fallback/WiderDtype.h"

// Emulates frequent operators without boxing: calls PyTorch's CPU kernel for `Op` (one of at::_ops) directly. The C++ type of
// each argument and result in the operator's schema decides how it is converted.
namespace openreg::fallback {

// Converts an argument of type T for the CPU kernel. `Held` keeps alive what the call needs.
template <class T>
struct Argument {
  using Held = std::remove_reference_t<T>*;
  static Held hold(Call&, T& value) {
    return const_cast<Held>(&value);  // NOLINT: given back as the T it came as
  }
  static T pass(Held held) {
    return static_cast<T>(*held);
  }
};

template <>
struct Argument<const at::Tensor&> {
  using Held = c10::MaybeOwned<at::Tensor>;
  static Held hold(Call& call, const at::Tensor& value) {
    return Held::borrowed(call.alias(value));
  }
  static const at::Tensor& pass(const Held& held) {
    return *held;
  }
};

template <>
struct Argument<at::Tensor&> {
  using Held = at::Tensor;
  static Held hold(Call& call, at::Tensor& value) {
    return call.alias(value, Call::Use::Write);
  }
  static at::Tensor& pass(Held& held) {
    return held;
  }
};

template <>
struct Argument<const std::optional<at::Tensor>&> {
  using Held = std::optional<at::Tensor>;
  static Held hold(Call& call, const std::optional<at::Tensor>& value) {
    return value.has_value() ? Held(call.alias(*value)) : std::nullopt;
  }
  static const std::optional<at::Tensor>& pass(const Held& held) {
    return held;
  }
};

template <>
struct Argument<at::TensorList> {
  using Held = std::vector<at::Tensor>;
  static Held hold(Call& call, at::TensorList values, Call::Use use = Call::Use::Read) {
    Held held;
    held.reserve(values.size());
    for (const auto& value : values) {
      held.push_back(call.alias(value, use));
    }
    return held;
  }
  static at::TensorList pass(const Held& held) {
    return held;
  }
};

template <>
struct Argument<const at::ITensorListRef&> {
  struct Held {
    std::vector<at::Tensor> aliases;
    at::ITensorListRef reference;
  };
  static Held hold(Call& call, const at::ITensorListRef& values) {
    Held held;
    held.aliases.reserve(values.size());
    for (const auto& value : values) {
      held.aliases.push_back(call.alias(value));
    }
    return held;
  }
  static const at::ITensorListRef& pass(Held& held) {
    held.reference = at::ITensorListRef(at::TensorList(held.aliases));
    return held.reference;
  }
};

template <>
struct Argument<const c10::List<std::optional<at::Tensor>>&> {
  using Held = c10::List<std::optional<at::Tensor>>;
  static Held hold(Call& call, const Held& values) {
    Held held;
    held.reserve(values.size());
    for (const auto i : c10::irange(values.size())) {
      std::optional<at::Tensor> value = values.get(i);
      held.push_back(
          value.has_value() ? std::optional<at::Tensor>(call.alias(*std::move(value), Call::Use::ReadAnywhere)) : std::nullopt);  // indices
    }
    return held;
  }
  static const Held& pass(const Held& held) {
    return held;
  }
};

// Factory functions: the CPU kernel gets the CPU as its device, and the CPU allocator then allocates device memory.
template <>
struct Argument<std::optional<at::Device>> {
  using Held = std::optional<at::Device>;
  static Held hold(Call&, std::optional<at::Device> value) {
    return value.has_value() ? Held(at::kCPU) : std::nullopt;
  }
  static Held pass(Held held) {
    return held;
  }
};

// Results: new tensors are retagged; references are the written operands, in order.
template <class R>
struct Result {
  static R give(Call&, R result) {
    return result;
  }
};

template <>
struct Result<at::Tensor> {
  static at::Tensor give(Call& call, at::Tensor result) {
    return call.adopt(std::move(result));
  }
};

template <>
struct Result<std::vector<at::Tensor>> {
  static std::vector<at::Tensor> give(Call& call, std::vector<at::Tensor> results) {
    return call.adopt(std::move(results));
  }
};

template <class... Rs>
struct Result<std::tuple<Rs...>> {
  static std::tuple<Rs...> give(Call& call, std::tuple<Rs...> results) {
    return std::apply([&](auto&... each) { return std::tuple<Rs...>(Result<Rs>::give(call, std::move(each))...); }, results);
  }
};

// A generator argument needs the device, so it is converted after all tensors.
template <class T>
inline constexpr bool kIsGenerator = std::is_same_v<std::decay_t<T>, std::optional<at::Generator>>;

template <class Held>
void resolveGenerator(Call& call, Held& held, std::optional<at::Generator>& storage) {
  if constexpr (std::is_same_v<std::remove_const_t<std::remove_pointer_t<Held>>, std::optional<at::Generator>>) {
    storage = call.engine(*held);
    held = &storage;
  }
}

// The dtypes of the tensors in an argument.
template <class T>
DtypeSet dtypesOf(const T& /*no tensor*/) {
  return 0;
}
inline DtypeSet dtypesOf(const at::Tensor& tensor) {
  return tensor.defined() ? dtypeBit(tensor.scalar_type()) : 0;
}
inline DtypeSet dtypesOf(const std::optional<at::Tensor>& tensor) {
  return tensor.has_value() ? dtypesOf(*tensor) : 0;
}
template <class List>
DtypeSet dtypesOfEach(const List& tensors) {
  DtypeSet dtypes = 0;
  for (const auto& tensor : tensors) {
    dtypes |= dtypesOf(tensor);
  }
  return dtypes;
}
inline DtypeSet dtypesOf(const at::TensorList& tensors) {
  return dtypesOfEach(tensors);
}
inline DtypeSet dtypesOf(const at::ITensorListRef& tensors) {
  return dtypesOfEach(tensors);
}
inline DtypeSet dtypesOf(const c10::List<std::optional<at::Tensor>>& tensors) {
  return dtypesOfEach(tensors.vec());
}

// The lists of tensors that an operator writes, one bit for each argument: "f_(Tensor(a!)[] self, Tensor[] other) -> ()" gives 1. The C++
// type of an argument tells whether a tensor is written, but not whether a list is.
constexpr uint64_t writtenLists(std::string_view schema) {
  uint64_t lists = 0;
  int argument = 0;
  int depth = 0;
  for (size_t i = schema.find('(') + 1; i < schema.size() && depth >= 0; ++i) {
    const char c = schema[i];
    if (c == '(' || c == '[') {
      ++depth;
    } else if (c == ')' || c == ']') {
      --depth;
    } else if (depth == 0 && c == ',') {
      ++argument;
    } else if (depth == 0 && c == '*') {
      --argument;  // what follows is a keyword argument
    }
    if (schema.substr(i, 4) == "!)[]") {
      lists |= uint64_t{1} << argument;
    }
  }
  return lists;
}
static_assert(writtenLists("f(Tensor x, int[2] n=[1,1], *, Tensor(a!)[] out) -> ()") == 0b100);
static_assert(writtenLists("f_(Tensor(a!)[] self, Tensor[] other, Tensor(b!) step) -> Tensor(a!)[]") == 0b001);

// Runs the CPU kernel on device memory under every policy. It is a template of the signature, not of the operator, which
// halves the number of instantiations.
template <class Signature>
struct OnDevice;

template <class R, class... Args>
struct OnDevice<R(Args...)> {
  struct Operator {
    OperatorCounter& counter;
    const char* name;
    const char* overload;
    R (*redispatch)(c10::DispatchKeySet, Args...);  // of one of at::_ops
    uint64_t written_lists;
  };

  static R call(const Operator& op, Args... args) {
    Call call(deviceAmong(args...));
    auto held = [&]<size_t... I>(std::index_sequence<I...>) {
      return std::tuple<typename Argument<Args>::Held...>{hold<Args>(call, args, op, I)...};  // in order, because of the braces
    }(std::index_sequence_for<Args...>());
    std::optional<at::Generator> generator;
    if constexpr ((kIsGenerator<Args> || ...)) {
      std::apply([&](auto&... each) { (resolveGenerator(call, each, generator), ...); }, held);
    }
    const auto run = [&]<size_t... I>(std::index_sequence<I...>) -> R {
      if ((op.counter.lacking() & (dtypesOf(args) | ... | DtypeSet{0})) == 0) [[likely]] {
        try {
          return op.redispatch(kCpu, Argument<Args>::pass(std::get<I>(held))...);
        } catch (const c10::NotImplementedError&) {
          // Tries a wider dtype; if that fails too, rethrows the error.
        }
      }
      return callBoxed(op, Argument<Args>::pass(std::get<I>(held))...);
    };
    constexpr auto kIndices = std::index_sequence_for<Args...>();
    if constexpr (std::is_void_v<R>) {
      call.run([&] { run(kIndices); });
    } else if constexpr (std::is_lvalue_reference_v<R>) {
      call.run([&] { run(kIndices); });
      return returned<R>(args...);
    } else if constexpr (isTupleOfReferences(static_cast<R*>(nullptr))) {
      call.run([&] { run(kIndices); });
      return lastWritten(static_cast<R*>(nullptr), args...);
    } else {
      std::optional<R> result;
      call.run([&] { result.emplace(run(kIndices)); });
      return Result<R>::give(call, *std::move(result));
    }
  }

 private:
  static constexpr c10::DispatchKeySet kCpu{c10::DispatchKey::CPU};

  template <class T>
  static typename Argument<T>::Held hold(Call& call, T& argument, const Operator& op, size_t index) {
    if constexpr (std::is_same_v<T, at::TensorList>) {
      const bool written = (op.written_lists >> index & 1) != 0;
      return Argument<T>::hold(call, argument, written ? Call::Use::Write : Call::Use::Read);
    } else {
      return Argument<T>::hold(call, argument);
    }
  }

  C10_NOINLINE static R callBoxed(const Operator& op, Args... aliases) {
    const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(op.name, op.overload);
    return c10::KernelFunction::makeFromBoxedFunction<&runCpuKernelBoxed>().call<R, Args...>(handle, kCpu, std::forward<Args>(aliases)...);
  }

  static constexpr bool isTupleOfReferences(void*) {
    return false;
  }
  template <class... Rs>
  static constexpr bool isTupleOfReferences(std::tuple<Rs...>*) {
    return (std::is_lvalue_reference_v<Rs> && ...);
  }

  template <class T>
  static auto writtenOf(T& argument) {
    if constexpr (std::is_same_v<T, at::Tensor>) {
      return std::tuple<at::Tensor&>(argument);
    } else {
      return std::tuple<>();
    }
  }

  // The `Tensor&` arguments. An out variant has its out arguments last; it may write others too, such as running statistics.
  static auto allWritten(Args&... args) {
    return std::tuple_cat(writtenOf(args)...);
  }

  template <class... Rs>
  static std::tuple<Rs...> lastWritten(std::tuple<Rs...>*, Args&... args) {
    auto written = allWritten(args...);
    constexpr size_t kOthers = std::tuple_size_v<decltype(written)> - sizeof...(Rs);
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return std::tuple<Rs...>(std::get<kOthers + I>(written)...);
    }(std::index_sequence_for<Rs...>());
  }

  // An in-place operator returns its first argument, an out variant its out argument.
  template <class Reference>
  static Reference returned(Args&... args) {
    if constexpr (std::is_same_v<std::tuple_element_t<0, std::tuple<Args...>>, Reference>) {
      return std::get<0>(std::tie(args...));
    } else {
      return std::get<0>(lastWritten(static_cast<std::tuple<Reference>*>(nullptr), args...));
    }
  }

  // The device argument of a factory function.
  static std::optional<c10::DeviceIndex> deviceAmong(const Args&... args) {
    std::optional<c10::DeviceIndex> index;
    const auto look = [&]<class T>(const T& argument) {
      if constexpr (std::is_same_v<T, std::optional<at::Device>>) {
        index = argument.has_value() ? std::optional(deviceNamed(*argument)) : std::nullopt;
      }
    };
    (look(args), ...);
    return index;
  }
};

// A call that must be timed, reported, recorded or refused.
template <class Signature>
struct CheckedCall;

template <class R, class... Args>
struct CheckedCall<R(Args...)> {
  C10_NOINLINE static R call(const typename OnDevice<R(Args...)>::Operator& op, Args... args) {
    if (!op.counter.isOnlyTimed()) {
      const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(op.name, op.overload);
      return c10::KernelFunction::makeFromBoxedFunction<&runCountedFallback>().call<R, Args...>(handle, c10::DispatchKeySet(), args...);
    }
    op.counter.addDtypes((dtypesOf(args) | ... | DtypeSet{0}));
    const CallTimer timer(op.counter);
    return OnDevice<R(Args...)>::call(op, args...);
  }
};

template <class Op, class Schema = typename Op::schema>
struct Emulated;

// Counts the call and runs it by the fallback policy. Operators without a native kernel are registered with this function.
template <class Op, class R, class... Args>
struct Emulated<Op, R(Args...)> {
  static R call(Args... args) {
    if (!counter.countAndCheckFast()) [[unlikely]] {
      return CheckedCall<R(Args...)>::call(op, args...);
    }
    return OnDevice<R(Args...)>::call(op, args...);
  }

 private:
  inline static OperatorCounter counter{Op::name, Op::overload_name};
  static constexpr typename OnDevice<R(Args...)>::Operator op{
      counter, Op::name, Op::overload_name, &Op::redispatch, writtenLists(Op::schema_str)};
};

// Emulated<Op>::call, to be registered for `Op` itself.
template <class Op>
torch::CppFunction emulated() {
  return withOrigin({Origin::Fallback, "listed in operators.def"}, Emulated<Op>::call);
}

// A kernel that hands its operands on to Emulated<Op>::call, to be registered for another operator.
template <class Op, class Function>
torch::CppFunction handedOnTo(Function kernel) {
  const auto name = c10::toString(c10::OperatorName(Op::name, Op::overload_name));
  return withOrigin({Origin::Fallback, "handed on to " + name, name}, kernel);
}

}  // namespace openreg::fallback
