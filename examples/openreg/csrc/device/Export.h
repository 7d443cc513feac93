#pragma once

// Symbols are hidden by default. This macro exports those that another library of this project or an extension may use.
#if defined(_WIN32)
#if defined(BACKEND_BUILDING)
#define BACKEND_API __declspec(dllexport)
#else
#define BACKEND_API __declspec(dllimport)
#endif
#else
#define BACKEND_API __attribute__((visibility("default")))
#endif
