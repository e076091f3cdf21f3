// What every translation unit of device code begins with. Compiled at run time by libsycl-jit; kernels
// are free functions there, called by name. Parts of <sycl/sycl.hpp>: half the time to compile.
#include <sycl/atomic_ref.hpp>
#include <sycl/builtins.hpp>
#include <sycl/ext/oneapi/free_function_queries.hpp>
#include <sycl/ext/oneapi/kernel_properties/properties.hpp>
#include <sycl/group_barrier.hpp>
#include <sycl/nd_item.hpp>

#define SINGLE_TASK_KERNEL \
  extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((sycl::ext::oneapi::experimental::single_task_kernel))
#define ND_RANGE_KERNEL \
  extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((sycl::ext::oneapi::experimental::nd_range_kernel<1>))
