"""The names and versions that this package was made for. CMake refuses to build against another torch."""

VENDOR_NAME = "OpenReg"
DEVICE_NAME = "openreg"
PACKAGE_NAME = "torch_openreg"
TORCH_MINOR = "2.13"
