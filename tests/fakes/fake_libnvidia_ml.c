/* A libnvidia-ml.so.1 without hardware: an RTX 8000 with ECC on, at rest at Gen1 and under load, as fake_libcuda.c says, at Gen3.
 *
 * Faults (FAKE_FAULTS): nodriver:0, mismatch:0, nocard:GPU (lost: every call says so), unsupported:GPU, retiring:GPU, replaying:GPU,
 * hot:GPU (thermal slowdown), heat:GPU (95 C), braking:GPU (power brake), slow:GPU (Gen1 under load), held:GPU>PEERS (Xorg), memory:GPU, vbios:GPU, nopeer:A>B.
 */
#include "fake_gpus.h"

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, TOO_SMALL = 7, NO_DRIVER = 9, TIMEOUT = 10, LOST = 15, MISMATCH = 18 };
#define MIB (1ull << 20)

typedef struct { char index; } Device;
static Device devices[MOST];
static int replays[MOST], told[MOST], started;

static int number(void *device) { return (int)((Device *)device - devices); }
static int trouble(void *device) { return fault("nocard", number(device), -1, 0) || fault("lost", number(device), -1, 0) ? LOST : OK; }
static int without(void *device) { return trouble(device) ? LOST : fault("unsupported", number(device), -1, 0) ? NOT_SUPPORTED : OK; }
static int busy(void *device) { return shared->busy[number(device)] > 0; }

#define TEXT(...) do { int failed = trouble(device); if (failed) return failed; snprintf(text, length, __VA_ARGS__); return OK; } while (0)
#define GIVE(value) do { int failed = trouble(device); if (failed) return failed; *out = (value); return OK; } while (0)
#define MAY(value) do { int failed = without(device); if (failed) return failed; *out = (value); return OK; } while (0)

int nvmlInit_v2(void) {
    read_world();
    if (fault("nodriver", 0, -1, 0)) return NO_DRIVER;
    if (fault("mismatch", 0, -1, 0)) return MISMATCH;
    started = 1;
    return OK;
}
int nvmlInitWithFlags(unsigned flags) { return nvmlInit_v2(); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) {
    return code == NOT_SUPPORTED ? "Not Supported" : code == LOST ? "GPU is lost" : code == NO_DRIVER ? "Driver Not Loaded"
         : code == MISMATCH ? "Driver/library version mismatch" : code == TIMEOUT ? "Timeout" : "Unknown Error";
}
int nvmlSystemGetDriverVersion(char *text, unsigned length) { snprintf(text, length, "%s", driver); return OK; }
int nvmlSystemGetNVMLVersion(char *text, unsigned length) { snprintf(text, length, "%d.%s", cuda / 1000, driver); return OK; }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { *out = cuda; return OK; }
int nvmlDeviceGetCount_v2(unsigned *out) { *out = gpus(); return started ? OK : UNINITIALIZED; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if ((int)index >= gpus()) return INVALID;
    *device = &devices[index];
    return fault("nocard", index, -1, 0) ? LOST : OK;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device) {
    unsigned domain, bus;
    if (sscanf(id, "%x:%x:", &domain, &bus) != 2) return INVALID;
    for (int i = 0; i < gpus(); i++)
        if (bus_of(i) == (int)bus) return nvmlDeviceGetHandleByIndex_v2(i, device);
    return 6;
}
typedef struct { char legacy[16]; unsigned domain, bus, device, ids, subsystem; char id[32]; } Pci;
int nvmlDeviceGetPciInfo_v3(void *device, Pci *out) {
    int failed = trouble(device);
    if (failed) return failed;
    memset(out, 0, sizeof *out);
    out->bus = bus_of(number(device)); out->ids = 0x1e7810de; out->subsystem = 0x13d810de;
    snprintf(out->legacy, 16, "0000:%02X:00.0", out->bus);
    snprintf(out->id, 32, "00000000:%02X:00.0", out->bus);
    return OK;
}
int nvmlDeviceGetUUID(void *device, char *text, unsigned length) {
    char uuid[48];
    uuid_of(number(device), uuid, sizeof uuid);
    TEXT("%s", uuid);
}
int nvmlDeviceGetSerial(void *device, char *text, unsigned length) {
    if (without(device)) return without(device);
    char serial[32];
    serial_of(number(device), serial, sizeof serial);
    TEXT("%s", serial);
}
int nvmlDeviceGetName(void *device, char *text, unsigned length) { TEXT("Quadro RTX 8000"); }
int nvmlDeviceGetVbiosVersion(void *device, char *text, unsigned length) { TEXT(fault("vbios", number(device), -1, 0) ? "90.02.17.00.02" : "90.02.30.00.05"); }
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *out) {
    out[0] = (fault("memory", number(device), -1, 0) ? 41760 : 45556) * MIB; out[2] = 300 * MIB; out[1] = out[0] - out[2];
    return trouble(device);
}
int nvmlDeviceGetBAR1MemoryInfo(void *device, unsigned long long *out) { out[0] = 256 * MIB; out[1] = out[2] = 128 * MIB; return without(device); }
int nvmlDeviceGetEccMode(void *device, int *now, int *later) { *now = *later = 1; return trouble(device); }
int nvmlDeviceGetTotalEccErrors(void *device, int kind, int since, unsigned long long *out) {
    MAY(kind == 1 && fault("retiring", number(device), -1, 0) ? 1 : 0);
}
int nvmlDeviceGetRetiredPages(void *device, int cause, unsigned *count, unsigned long long *pages) {
    int failed = without(device), there = cause == 1 && fault("retiring", number(device), -1, 0) ? 1 : 0;
    if (failed) return failed;
    int room = *count;
    *count = there;
    if (there > room) return TOO_SMALL;
    if (there) pages[0] = 0x2000;
    return OK;
}
int nvmlDeviceGetRetiredPagesPendingStatus(void *device, int *out) { MAY(fault("retiring", number(device), -1, 0) ? 1 : 0); }
int nvmlDeviceGetRemappedRows(void *device, unsigned *a, unsigned *b, unsigned *c, unsigned *d) { return trouble(device) ? LOST : NOT_SUPPORTED; }
int nvmlDeviceGetCurrPcieLinkGeneration(void *device, unsigned *out) { GIVE(busy(device) && !fault("slow", number(device), -1, 0) ? 3 : 1); }
int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *out) { GIVE(16); }
int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned *out) { GIVE(3); }
int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *out) { GIVE(16); }
int nvmlDeviceGetPcieReplayCounter(void *device, unsigned *out) {
    if (fault("replaying", number(device), -1, 0)) replays[number(device)] += 80;
    GIVE(replays[number(device)]);
}
int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *out) { 
    MAY(fault("hot", number(device), -1, 0) ? 0x40 : fault("braking", number(device), -1, 0) ? 0x80 : busy(device) ? 0 : 1);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *out) { return nvmlDeviceGetCurrentClocksEventReasons(device, out); }
int nvmlDeviceGetPowerUsage(void *device, unsigned *out) { MAY(busy(device) ? 81000 : 28100); }
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *out) { MAY(250000); }
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *out) { GIVE(fault("heat", number(device), -1, 0) ? 95 : busy(device) ? 44 : 31); }
/* Shut down from 91 C on, slow down from 88 C on: assumptions. */
int nvmlDeviceGetTemperatureThreshold(void *device, int which, unsigned *out) { MAY(which == 0 ? 91 : 88); }
int nvmlDeviceGetPersistenceMode(void *device, int *out) { MAY(1); }
int nvmlDeviceGetP2PStatus(void *a, void *b, int index, int *out) {
    if (trouble(a) || trouble(b)) return LOST;
    *out = fault("nopeer", number(a), number(b), 0) ? 1 : index == 3 ? 5 : 0;
    return OK;
}
int nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, int *out) {
    *out = switch_of(number(a)) == switch_of(number(b)) ? 10 : level;
    return trouble(a) ? trouble(a) : trouble(b);
}
typedef struct { unsigned pid; unsigned long long memory; unsigned a, b; } Process;
static int processes(void *device, unsigned *count, Process *list, int graphics) {
    if (trouble(device)) return LOST;
    unsigned there = graphics && fault("held", number(device), -1, 0) ? 1 : 0, room = *count;
    *count = there;
    if (there > room) return TOO_SMALL;
    if (there) { memset(list, 0, sizeof *list); list->pid = 2117; list->memory = 41 * MIB; }
    return OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *list) { return processes(device, count, list, 0); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, void *list) { return processes(device, count, list, 1); }
int nvmlSystemGetProcessName(unsigned pid, char *text, unsigned length) { snprintf(text, length, "/usr/lib/xorg/Xorg"); return OK; }
typedef struct { void *device; unsigned long long type, data; unsigned a, b; } Happened;
int nvmlEventSetCreate(void **set) { static int one; *set = &one; return OK; }
int nvmlEventSetFree(void *set) { return OK; }
int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set) { return trouble(device); }
int nvmlEventSetWait_v2(void *set, Happened *out, unsigned ms) {
    for (int i = 0; i < gpus(); i++)
        if (shared->xid[i] && !told[i]) {
            told[i] = 1;
            memset(out, 0, sizeof *out);
            out->device = &devices[i]; out->type = 8; out->data = shared->xid[i];
            return OK;
        }
    usleep(ms * 1000);
    return TIMEOUT;
}
