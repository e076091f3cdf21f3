// Numbers as error messages show them.
#pragma once

#include <cstdio>
#include <string>

namespace accel {

inline std::string to_text(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", x);
  return text;
}

}  // namespace accel
