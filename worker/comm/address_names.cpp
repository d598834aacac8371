// c10d asks for the name of each address that it connects to or accepts, for the texts of its log
// and its errors. The store waits meanwhile, and with it all ranks: for ten seconds each time where a
// pod's name server does not answer. So nobody in this program asks: an address is its own name.

#include <dlfcn.h>
#include <netdb.h>
#include <sys/socket.h>

// LibTorch finds this one before the C library's.
extern "C" int getnameinfo(
    const sockaddr* address,
    socklen_t address_length,
    char* host,
    socklen_t host_length,
    char* service,
    socklen_t service_length,
    int flags
) {
  static const auto kOfTheCLibrary =
      reinterpret_cast<decltype(&getnameinfo)>(::dlsym(RTLD_NEXT, "getnameinfo"));
  if (kOfTheCLibrary == nullptr) return EAI_SYSTEM;
  return kOfTheCLibrary(
      address,
      address_length,
      host,
      host_length,
      service,
      service_length,
      flags | NI_NUMERICHOST | NI_NUMERICSERV
  );
}
