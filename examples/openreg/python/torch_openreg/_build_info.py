"""The names of this package and its release of torch. CMake refuses to build with another release."""

VENDOR_NAME = "OpenReg"
DEVICE_NAME = "openreg"
PACKAGE_NAME = "torch_openreg"
TORCH_MINOR = "2.13"
