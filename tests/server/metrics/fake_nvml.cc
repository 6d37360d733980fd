// SPDX-License-Identifier: Apache-2.0
// NVML of a machine with one GPU, at 0000:17:00.0, whose state is constant. With TELLS_LITTLE the GPU tells its memory
// alone: some functions refuse, others do not exist.
#include <cstring>

extern "C" {

static int gpu;

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int result) { return result == 6 ? "Not Found" : "Not Supported"; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** handle) {
  *handle = &gpu;
  return std::strcmp(address, "0000:17:00.0") == 0 ? 0 : 6;
}

struct Memory {
  unsigned version;
  unsigned long long total, reserved, free, used;
};

int nvmlDeviceGetMemoryInfo_v2(void* handle, Memory* memory) {
  if (handle != &gpu || memory->version != 0x2000028) return 25;
  memory->total = 1000;
  memory->reserved = 1;
  memory->free = 600;
  memory->used = 399;
  return 0;
}

#ifdef TELLS_LITTLE
int nvmlDeviceGetUtilizationRates(void* handle, unsigned* rates) { return handle != &gpu || rates == nullptr ? 2 : 3; }
int nvmlDeviceGetTotalEccErrors(void* handle, int kind, int counter, unsigned long long* errors) {
  return handle != &gpu || kind > 1 || counter > 1 || errors == nullptr ? 2 : 3;
}
#else
int nvmlDeviceGetUtilizationRates(void* handle, unsigned* rates) {
  rates[0] = 75;
  rates[1] = 50;
  return handle == &gpu ? 0 : 2;
}

int nvmlDeviceGetClockInfo(void* handle, int clock, unsigned* megahertz) {
  *megahertz = clock == 1 ? 1980 : clock == 2 ? 3201 : 0;
  return handle == &gpu ? 0 : 2;
}

int nvmlDeviceGetMaxClockInfo(void* handle, int clock, unsigned* megahertz) {
  *megahertz = clock == 1 ? 2000 : clock == 2 ? 3300 : 0;
  return handle == &gpu ? 0 : 2;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void* handle, unsigned long long* reasons) {
  *reasons = 0x44;  // power cap, hardware thermal
  return handle == &gpu ? 0 : 2;
}

int nvmlDeviceGetTotalEccErrors(void* handle, int kind, int counter, unsigned long long* errors) {
  *errors = counter == 0 ? (kind == 0 ? 7 : 2) : 999;
  return handle == &gpu ? 0 : 2;
}

int nvmlDeviceGetRemappedRows(void* handle, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                              unsigned* failed) {
  *corrected = 3;
  *uncorrected = 4;
  *pending = 1;
  *failed = 0;
  return handle == &gpu ? 0 : 2;
}

int nvmlDeviceGetTemperature(void* handle, int sensor, unsigned* celsius) {
  *celsius = sensor == 0 ? 61 : 0;
  return handle == &gpu ? 0 : 2;
}

int nvmlDeviceGetPowerUsage(void* handle, unsigned* milliwatts) {
  *milliwatts = 345600;
  return handle == &gpu ? 0 : 2;
}
#endif

}  // extern "C"
