// What every translation unit of device code begins with. Compiled at run time by libsycl-jit; kernels
// are free functions there, called by name.
#include <sycl/sycl.hpp>

#define SINGLE_TASK_KERNEL \
  extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((sycl::ext::oneapi::experimental::single_task_kernel))
#define ND_RANGE_KERNEL \
  extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((sycl::ext::oneapi::experimental::nd_range_kernel<1>))
