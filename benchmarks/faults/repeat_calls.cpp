// Repeat recorded calls of the core, for sanitizers and valgrind: no Python, no torch, arrays of exact size.
//
//   repeat_calls CALLS LIBRARY INSTRUCTION_SET CALLERS
//
// Each of CALLERS threads makes every call in arrays of its own. A result must be
// the recorded one up to rounding. The instruction set "shared" is a race between the callers instead of any call.
#include <dlfcn.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

struct Head {
    char name[40];
    int64_t size, pointers, arrays;
};
static std::vector<char> file;
static void* library;
static std::string set;

template <class Real> static bool near(const char* found, const char* wanted, int64_t bytes) {
    const double share = sizeof(Real) == 4 ? 1e-3 : 1e-9;
    double largest = 1e-3;
    std::vector<Real> a(bytes / sizeof(Real)), b(a.size());
    std::memcpy(a.data(), found, bytes), std::memcpy(b.data(), wanted, bytes);
    for (const Real x : b)
        if (std::isfinite(x)) largest = std::fmax(largest, std::fabs(x));
    for (size_t i = 0; i < a.size(); ++i)
        if (!std::isnan(b[i]) && a[i] != b[i] && !(std::fabs(double(a[i]) - b[i]) <= share * largest)) return false;
    return true;
}

// Make one call; return its end in the file, or null after a failure.
static const char* make_call(const char* at) {
    Head head;
    std::memcpy(&head, at, sizeof head);
    at += sizeof head;
    std::vector<char> arguments(at, at + head.size);
    const char* pointers = at + head.size;
    at = pointers + head.pointers * 24;
    std::vector<char*> arrays;
    std::vector<const char*> wanted;
    std::vector<int64_t> sizes;
    for (int64_t i = 0; i < head.arrays; ++i) {
        int64_t bytes;
        std::memcpy(&bytes, at, 8);
        arrays.push_back(static_cast<char*>(std::malloc(bytes)));
        std::memcpy(arrays.back(), at + 8, bytes);
        sizes.push_back(bytes), wanted.push_back(at + 8 + bytes);
        at += 8 + 2 * bytes;
    }
    // A pointer is in the struct or in an array, which has the recorded address again after the call.
    const auto point = [&](bool is_restored) {
        for (int64_t i = 0; i < head.pointers; ++i) {
            int64_t place[3];
            std::memcpy(place, pointers + 24 * i, 24);
            char* array = place[2] < 0 ? nullptr : arrays[place[2]];
            if (place[0] < 0)
                std::memcpy(arguments.data() + place[1], &array, sizeof array);
            else if (is_restored)
                std::memcpy(arrays[place[0]] + place[1], wanted[place[0]] + place[1], sizeof array);
            else
                std::memcpy(arrays[place[0]] + place[1], &array, sizeof array);
        }
    };
    point(false);
    const std::string symbol = std::string("representer_") + head.name + "_" + set;
    const auto function = reinterpret_cast<int (*)(const void*)>(dlsym(library, symbol.c_str()));
    const int status = function ? function(arguments.data()) : -1;
    point(true);
    bool is_right = status == 0;
    const bool is_single = std::strstr(head.name, "_f32");
    for (int64_t i = 0; i < head.arrays; ++i) {
        const bool is_equal = !sizes[i] || !std::memcmp(arrays[i], wanted[i], sizes[i]);
        is_right &= is_equal || (is_single ? near<float>(arrays[i], wanted[i], sizes[i]) : near<double>(arrays[i], wanted[i], sizes[i]));
        std::free(arrays[i]);
    }
    if (!is_right) std::fprintf(stderr, "%s: status %d or a wrong result\n", symbol.c_str(), status);
    return is_right ? at : nullptr;
}

int main(int count, char** given) {
    if (count != 5) return 2;
    std::ifstream stream(given[1], std::ios::binary);
    file.assign(std::istreambuf_iterator<char>(stream), {});
    library = dlopen(given[2], RTLD_NOW);
    if (!library) return std::fprintf(stderr, "%s\n", dlerror()), 2;
    set = given[3];
    static volatile int shared = 0;
    std::vector<int> failed(std::atoi(given[4]));
    std::vector<std::thread> callers;
    for (int& own : failed)
        callers.emplace_back([&own] {
            if (set == "shared") return void(shared = shared + 1);  // a planted race
            for (const char* at = file.data(); at && at < file.data() + file.size();) {
                at = make_call(at);
                own = !at;
            }
        });
    for (std::thread& caller : callers) caller.join();
    for (const int own : failed)
        if (own) return 1;
    return 0;
}
