// Supported instruction sets of the processor, and digests of the sources of this library.
#include <cstring>

#define REPRESENTER_EXPORT extern "C" __attribute__((visibility("default")))

REPRESENTER_EXPORT const char* representer_structs() { return REPRESENTER_STRUCTS; }
REPRESENTER_EXPORT const char* representer_sources() { return REPRESENTER_SOURCES; }

REPRESENTER_EXPORT int representer_runs(const char* isa) {
    if (!std::strcmp(isa, "portable")) return 1;
#if defined(REPRESENTER_X86)
    __builtin_cpu_init();
    if (!std::strcmp(isa, "avx2")) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (!std::strcmp(isa, "avx512"))
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#endif
    return 0;
}
