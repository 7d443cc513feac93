#pragma once

// Everything is hidden by default; what another library of this project or a downstream extension may call is marked.
#if defined(_WIN32)
#if defined(BACKEND_BUILDING)
#define BACKEND_API __declspec(dllexport)
#else
#define BACKEND_API __declspec(dllimport)
#endif
#else
#define BACKEND_API __attribute__((visibility("default")))
#endif
