/* twohop: hierarchical two-hop collectives. The C API, in the shape NCCL users know.
 *
 * Conventions for every function below
 *   - It returns a twohopResult_t; nothing is thrown and nothing aborts the process.
 *   - After an error, twohopGetLastError(comm) (or NULL for the calling thread) explains it in words.
 *   - Counts are in elements of the datatype. Sizes whose name ends in _bytes are in bytes.
 *   - A communicator is used by one thread at a time; twohopCommAbort, twohopCommGetAsyncError and
 *     twohopGetLastError may be called from any thread at any time before twohopCommDestroy.
 *   - Collectives are called by every rank of a communicator in the same order with the same arguments.
 *     Calls that do not match are reported as twohopInvalidUsage on all ranks; nothing is computed from them.
 *   - A failure of one rank ends the communicator on all of them, an init that is still running included.
 *   - Handles do not survive fork(): in the child they are refused, and so is a new init. exec is fine.
 *
 * Needs no MPI, CUDA or verbs header.
 */
#ifndef TWOHOP_TWOHOP_H_
#define TWOHOP_TWOHOP_H_

#include <stddef.h>
#include <stdint.h>

#define TWOHOP_MAJOR 0
#define TWOHOP_MINOR 1
#define TWOHOP_PATCH 0
#define TWOHOP_VERSION_CODE (TWOHOP_MAJOR * 10000 + TWOHOP_MINOR * 100 + TWOHOP_PATCH)

#define TWOHOP_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* Result codes. 0 to 7 have NCCL's numbers and meanings. */
typedef enum {
  twohopSuccess = 0,
  twohopUnhandledCudaError = 1, /* a CUDA call failed */
  twohopSystemError = 2,        /* a system call failed: socket, memory, file */
  twohopInternalError = 3,      /* a fault of twohop itself: please report it */
  twohopInvalidArgument = 4,    /* an argument or a TWOHOP_* variable is not acceptable */
  twohopInvalidUsage = 5,       /* a call that does not fit the calls before it or those of other ranks */
  twohopRemoteError = 6,        /* another rank failed or was lost */
  twohopInProgress = 7,         /* not an error: the operation is still running */
  twohopTimeout = 8,            /* no progress for TWOHOP_TIMEOUT_S seconds */
  twohopAborted = 9             /* the communicator was aborted, here or on another rank */
} twohopResult_t;

/* Element types. Values are stable; they are written on the wire. */
typedef enum {
  twohopInt8 = 0,
  twohopUint8 = 1,
  twohopInt32 = 2,
  twohopUint32 = 3,
  twohopInt64 = 4,
  twohopUint64 = 5,
  twohopFloat16 = 6,
  twohopFloat32 = 7,
  twohopFloat64 = 8,
  twohopBfloat16 = 9,
  twohopFloat8e4m3 = 10, /* OCP E4M3 (finite, one NaN pattern per sign) */
  twohopFloat8e5m2 = 11  /* OCP E5M2 */
} twohopDataType_t;
#define TWOHOP_NUM_DATATYPES 12

/* Reduction operations. Values from TWOHOP_NUM_OPS on are handles made by twohopRedOpCreatePreMulSum. */
typedef enum {
  twohopSum = 0,
  twohopProd = 1,
  twohopMax = 2,
  twohopMin = 3,
  twohopAvg = 4,
  twohopMaxRedOp = 0x7fffffff
} twohopRedOp_t;
#define TWOHOP_NUM_OPS 5

typedef struct twohopComm* twohopComm_t;
typedef struct twohopStream* twohopStream_t;

/* Names a job. Opaque bytes: an address and a random secret. Made by one process, sent by the user's own
 * means to all ranks, and worth keeping confidential: whoever holds it can join. */
#define TWOHOP_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[TWOHOP_UNIQUE_ID_BYTES];
} twohopUniqueId;

/* Options of one communicator. Initialise with TWOHOP_CONFIG_INITIALIZER, then set what you need.
 * A field left at its initial value takes the TWOHOP_* variable, then the built-in default. */
typedef struct {
  size_t size;            /* sizeof(twohopConfig_t) as the caller was compiled; set by the initializer */
  uint32_t version;       /* TWOHOP_VERSION_CODE as the caller was compiled; set by the initializer */
  int32_t nchannels;      /* 1..16; 0: default (TWOHOP_NCHANNELS) */
  double timeout_s;       /* seconds without progress before a call fails; 0: default (TWOHOP_TIMEOUT_S) */
  const char* algo;       /* as TWOHOP_ALGO: "auto", "two-hop", "^flat-naive", ...; NULL: TWOHOP_ALGO. Copied. */
  const char* comm_name;  /* name used in messages; NULL: none. Copied. */
  int32_t ranks_per_node; /* >0: cut each host into virtual nodes of this many ranks; 0: TWOHOP_RANKS_PER_NODE */
} twohopConfig_t;
#define TWOHOP_CONFIG_INITIALIZER \
  { sizeof(twohopConfig_t), TWOHOP_VERSION_CODE, 0, 0.0, NULL, NULL, 0 }

/* ---- Version and errors ---------------------------------------------------------------------------- */

/* Stores TWOHOP_VERSION_CODE of the library that is loaded. */
TWOHOP_API twohopResult_t twohopGetVersion(int* version);

/* A short constant text for a result code; never NULL. */
TWOHOP_API const char* twohopGetErrorString(twohopResult_t result);

/* The full text of the last error of comm, or of the calling thread's last failed call when comm is NULL.
 * Never NULL; "" when there was none. Valid until the calling thread's next twohopGetLastError. */
TWOHOP_API const char* twohopGetLastError(twohopComm_t comm);

/* ---- Communicators --------------------------------------------------------------------------------- */

/* Makes an id and starts listening for the ranks of one communicator, in this process. Call it in one
 * process and hand the bytes to all ranks; this process must live until they have all joined.
 * Use an id for one communicator only. Errors: twohopSystemError if no interface can be listened on. */
TWOHOP_API twohopResult_t twohopGetUniqueId(twohopUniqueId* id);

/* Joins communicator `id` as `rank` of `nranks`; blocks until all ranks have joined, at most
 * TWOHOP_INIT_TIMEOUT_S seconds. Inside a group it returns at once and twohopGroupEnd completes it.
 * Its calls on device memory are for the GPU that is current in the calling thread at this call (docs/gpu.md).
 * Errors: twohopInvalidArgument (rank out of range, malformed id, bad variable), twohopInvalidUsage
 * (a rank joined twice, ranks disagree on nranks or options), twohopTimeout (names the ranks missing). */
TWOHOP_API twohopResult_t twohopCommInitRank(twohopComm_t* comm, int nranks, twohopUniqueId id, int rank);

/* The same with options of its own; config NULL means defaults. config is read during the call only. */
TWOHOP_API twohopResult_t twohopCommInitRankConfig(twohopComm_t* comm, int nranks, twohopUniqueId id, int rank,
                                                   const twohopConfig_t* config);

/* Joins as the launcher's variables say: RANK, WORLD_SIZE, MASTER_ADDR, and TWOHOP_PORT (default MASTER_PORT + 1,
 * since torchrun's own store holds MASTER_PORT). Rank 0 listens. The secret is TWOHOP_JOB_SECRET; without one only
 * loopback addresses are accepted, for the data as well, and any user of the machine could join. May be called again
 * for further communicators, in the same order on all ranks. */
TWOHOP_API twohopResult_t twohopCommInitEnv(twohopComm_t* comm, const twohopConfig_t* config);

/* Rank, number of ranks, and the shape found: number of nodes, this rank's node, rank inside the node, ranks on it. */
TWOHOP_API twohopResult_t twohopCommUserRank(twohopComm_t comm, int* rank);
TWOHOP_API twohopResult_t twohopCommCount(twohopComm_t comm, int* nranks);
typedef struct {
  int32_t nnodes, node, local_rank, local_size;
} twohopShape_t;
TWOHOP_API twohopResult_t twohopCommShape(twohopComm_t comm, twohopShape_t* shape);

/* Frees comm after its pending calls have completed; does not wait for other ranks to destroy theirs.
 * comm may be NULL. A communicator that has failed can be destroyed too. A process that exits without destroying (by
 * exit or a return from main) leaves its idle communicators in good order all the same; one that is killed, or ends by
 * _exit, is a lost rank to the others. */
TWOHOP_API twohopResult_t twohopCommDestroy(twohopComm_t comm);

/* Makes every pending and later call of comm end with twohopAborted, on all ranks, and returns at once.
 * Any thread. comm stays valid until twohopCommDestroy. */
TWOHOP_API twohopResult_t twohopCommAbort(twohopComm_t comm);

/* twohopSuccess while comm is healthy, else the error it has failed with (a lost rank is noticed between calls too). */
TWOHOP_API twohopResult_t twohopCommGetAsyncError(twohopComm_t comm, twohopResult_t* async_error);

/* ---- Streams: asynchronous calls. Buffers belong to the library until the stream has passed the call. ---- */

/* A stream runs the calls given to it in order, on a thread of its own. A NULL stream means: block until done. Memory
 * that CUDA knows takes a cudaStream_t in its place, cast; NULL is then CUDA's default stream (docs/gpu.md). */
TWOHOP_API twohopResult_t twohopStreamCreate(twohopStream_t* stream);
/* Waits until all calls given so far are done; returns the first error among calls since the last synchronize. */
TWOHOP_API twohopResult_t twohopStreamSynchronize(twohopStream_t stream);
/* twohopSuccess if idle, twohopInProgress if not, or the first error. */
TWOHOP_API twohopResult_t twohopStreamQuery(twohopStream_t stream);
/* Waits for its calls, then frees it. */
TWOHOP_API twohopResult_t twohopStreamDestroy(twohopStream_t stream);

/* ---- Groups ------------------------------------------------------------------------------------------ */

/* Between GroupStart and the matching GroupEnd of a thread no call blocks, init included. GroupEnd runs them all
 * together, so that one thread may hold several ranks. Groups nest; the outermost GroupEnd does the work, and
 * returns the first error. Calls with a stream are handed to it and do not make GroupEnd wait. */
TWOHOP_API twohopResult_t twohopGroupStart(void);
TWOHOP_API twohopResult_t twohopGroupEnd(void);

/* ---- Collectives ------------------------------------------------------------------------------------- */

/* Buffers are the caller's, aligned to the element; any count including 0. All ranks of a call give memory of the host,
 * or all memory of their GPUs (docs/gpu.md); where they differ the call fails on all ranks with twohopInvalidUsage.
 * Send and receive buffers are either exactly in place, as each function says, or disjoint; any other overlap is
 * twohopInvalidArgument. Every rank gets the same bits, and the same call on the same cluster gives the same bits
 * again.
 *
 * Numbers. 8- and 16-bit floats are widened to float32, folded there and rounded to nearest even once per reduction
 * step. 16-bit types overflow to infinity; 8-bit types saturate at their largest finite value, also from an infinite
 * float8e5m2 input. max and min ignore NaN unless all contributions are NaN, and order -0 below +0; elsewhere NaN stays
 * NaN, of one canonical pattern. Integers wrap. avg of floating types scales each contribution by 1/nranks (in float32;
 * in float64 for float64) before its first rounding; avg of integers divides the wrapped sum once, toward zero. */

/* recv[i] = op over all ranks of send[i], i < count. In place: send == recv. */
TWOHOP_API twohopResult_t twohopAllReduce(const void* send, void* recv, size_t count, twohopDataType_t type,
                                          twohopRedOp_t op, twohopComm_t comm, twohopStream_t stream);

/* send holds nranks * recvcount elements; rank r gets the reduction of block r.
 * In place: recv == send + rank * recvcount. */
TWOHOP_API twohopResult_t twohopReduceScatter(const void* send, void* recv, size_t recvcount, twohopDataType_t type,
                                              twohopRedOp_t op, twohopComm_t comm, twohopStream_t stream);

/* recv holds nranks * sendcount elements; block r is rank r's send. In place: send == recv + rank * sendcount. */
TWOHOP_API twohopResult_t twohopAllGather(const void* send, void* recv, size_t sendcount, twohopDataType_t type,
                                          twohopComm_t comm, twohopStream_t stream);

/* recv of every rank becomes send of rank `root` (send is read on root only). In place: send == recv. */
TWOHOP_API twohopResult_t twohopBroadcast(const void* send, void* recv, size_t count, twohopDataType_t type, int root,
                                          twohopComm_t comm, twohopStream_t stream);

/* Returns (or lets the stream pass) when every rank has entered it. */
TWOHOP_API twohopResult_t twohopBarrier(twohopComm_t comm, twohopStream_t stream);

/* ---- Reductions of one's own -------------------------------------------------------------------------- */

/* Makes an operation that multiplies this rank's contribution by *scalar and sums. scalar is one element of `type`,
 * read during this call; each rank gives its own. Floating types of 32 bits and less are scaled in float32 before
 * their first rounding; integers wrap. The handle is good for `type` and `comm` until it is destroyed.
 * Every rank creates its operations in the same order. */
TWOHOP_API twohopResult_t twohopRedOpCreatePreMulSum(twohopRedOp_t* op, const void* scalar, twohopDataType_t type,
                                                     twohopComm_t comm);
TWOHOP_API twohopResult_t twohopRedOpDestroy(twohopRedOp_t op, twohopComm_t comm);

/* ---- Memory that is used where it lies ------------------------------------------------------------------ */

/* Registers `bytes` of memory with comm. A call whose whole send buffer lies in one registered range is not staged,
 * where that can be avoided; elsewhere it does what it did. Registering costs time; do it once for buffers that are
 * used again and again. *handle is for twohopCommDeregister. The memory stays the caller's and must stay allocated
 * until it is deregistered or comm is destroyed. One thread at a time for each comm, and no call of it may be pending.
 *
 * Host memory (cudaMallocHost's included): the network sends from it where the schedule puts a rank's own input on the
 * wire (one rank per node, and no avg of floating types or pre-multiplied sum). Locks the memory. Each rank registers
 * as it likes, at once.
 *
 * Device memory of comm's GPU, of twohopMemAllocDevice or cudaMalloc: the other ranks of the node read it in all-reduce
 * and reduce-scatter. All ranks of a node register together, in the same order, each a range of its own of any size:
 * the call blocks until the others have made it, at most TWOHOP_TIMEOUT_S seconds, so it cannot be in a group, and
 * ranks of one node need a thread each. At most 64 ranges. Memory of cudaMalloc that was freed without being
 * deregistered is noticed by its allocation number and staged, though another allocation got its address; what a graph
 * has captured is not looked at again. Where the GPUs of the node do not reach each other nothing changes. See
 * docs/gpu.md.
 *
 * Errors: twohopInvalidUsage if the range overlaps a registered one, calls are pending, or another rank of the node
 * does not do the same, or has destroyed its communicator (which ends comm); what is refused for its arguments alone,
 * or inside a group, is refused before ranks meet, and the others wait; twohopInvalidArgument for managed memory,
 * device memory of a pool or past its allocation; twohopUnhandledCudaError if CUDA cannot share it; twohopSystemError
 * if the network's device refuses (the message has RLIMIT_MEMLOCK, the size and what is registered); twohopTimeout,
 * which ends comm. */
TWOHOP_API twohopResult_t twohopCommRegister(twohopComm_t comm, void* buffer, size_t bytes, void** handle);
/* From now on the memory is staged again, and may be freed. Of device memory: all ranks of the node together, as above;
 * synchronize the streams of all calls on it first, and destroy the graphs that have captured one (twohopInvalidUsage
 * on all ranks where one of them has not; the memory stays registered then). Destroying comm deregisters too, but
 * memory of cudaMalloc may only be freed once all ranks of the node have done so, and destroyed such graphs.
 * Errors: twohopInvalidArgument for an unknown handle, and as above. */
TWOHOP_API twohopResult_t twohopCommDeregister(twohopComm_t comm, void* handle);

/* Zeroed memory that suits registration, of `bytes` bytes, the caller's until twohopMemFree; it still has to be
 * registered. twohopMemAlloc: host memory, whole pages, huge ones where the system has them. twohopMemAllocDevice: of
 * the GPU that is current in the calling thread, exported by file descriptor where the driver can, so that it may be
 * freed while other ranks still map it. twohopMemFree takes both, and refuses memory that is registered
 * (twohopInvalidUsage) or not its own (twohopInvalidArgument); NULL is fine. Any thread. Errors: twohopSystemError or
 * twohopUnhandledCudaError where there is not so much; twohopInvalidUsage without a GPU. */
TWOHOP_API twohopResult_t twohopMemAlloc(void** memory, size_t bytes);
TWOHOP_API twohopResult_t twohopMemAllocDevice(void** memory, size_t bytes);
TWOHOP_API twohopResult_t twohopMemFree(void* memory);

/* ---- Counters ------------------------------------------------------------------------------------------ */

/* What this rank has done since init. Snapshot; fill `size` with sizeof(twohopCounters_t) before the call: fields are
 * only ever added at the end, and a caller of another version gets those that both know. Times are in ns.
 *
 * Control path: init_ns, first_call_ns, registration_ns. Fast path: call_ns, held_ns, post_ns, completion_ns.
 * From credits to rail_bytes the network's fields are those of RDMA rails; they are 0 where data goes over TCP or stays
 * on one node (nrails is 0 then).
 * From nretry_rails on the fields are read from the devices' own counters, some files of sysfs per rail: a caller in a
 * hurry sets size to offsetof(twohopCounters_t, nretry_rails) and goes without. */
#define TWOHOP_MAX_RAILS 16
typedef struct {
  size_t size;
  uint64_t calls;              /* collectives completed */
  uint64_t net_bytes_sent;     /* payload and headers handed to the network for ranks of other nodes */
  uint64_t net_bytes_received; /* the same, received */
  uint64_t puts;               /* messages posted */
  uint64_t flushes;            /* batches handed to the network; puts / flushes is the batch size */
  uint64_t sleeps;             /* times a call went to sleep waiting */
  uint64_t yields;             /* times it yielded the core */

  uint64_t init_ns;       /* joining: rendezvous, memory, connections */
  uint64_t first_call_ns; /* the first collective */
  uint64_t call_ns;       /* all collectives after it; 0 on one node, where reading the clock would show in a call */

  uint64_t credits;               /* messages that only say that puts were consumed */
  uint64_t work_requests;         /* posted to send queues: parts of puts, call tags, credits */
  uint64_t doorbells;             /* ibv_post_send calls; puts / doorbells is what batching gains */
  uint64_t signalled_completions; /* work requests that ask for a completion */
  uint64_t held_ns;               /* batches waited for their doorbell, in all */
  uint64_t post_ns;               /* inside ibv_post_send, in all */
  uint64_t completion_ns;         /* from a signalled request's doorbell until its completion was seen, in all */
  uint64_t registrations;         /* of memory, once per rail */
  uint64_t registered_bytes;      /* in all of them */
  uint64_t registration_ns;       /* in all of them */

  uint64_t nrails;                       /* entries of the arrays below */
  uint64_t rail_bytes[TWOHOP_MAX_RAILS]; /* payload sent over each rail */

  /* The rails whose devices count retries (the others' rail_retries are 0), and how often the rails' ports have sent
   * something again since init, in all. A port's counters are the port's: they include other processes' traffic. */
  uint64_t nretry_rails;
  uint64_t retries;
  uint64_t rail_retries[TWOHOP_MAX_RAILS];
  /* The same number at every rank that uses the same port: count such a port's retries once. */
  uint64_t rail_port[TWOHOP_MAX_RAILS];

  /* This rank's rails that were given up, connections that went back to a rail that works again, and the messages that
   * were sent again over another rail. Counted by the library: they cost nothing to read. */
  uint64_t rail_failures;
  uint64_t rail_returns;
  uint64_t reissued_puts;
} twohopCounters_t;
TWOHOP_API twohopResult_t twohopCommGetCounters(twohopComm_t comm, twohopCounters_t* counters);

#ifdef __cplusplus
}
#endif
#endif /* TWOHOP_TWOHOP_H_ */
