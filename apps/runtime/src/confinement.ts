// Restricts this process further than Deno's permissions do, with limits and a seccomp filter of Linux:
// - Memory, files and their sizes are limited.
// - Sockets are IPv4 or Unix sockets. Deno compares addresses with the denied ranges after it has resolved a name, but its
//   ranges are IPv4 only, so that a name with the address ::ffff:127.0.0.1 or fd00::1 would reach the local network.
// - Of Unix sockets, only that of the platform can be reached. Deno's rules have no names for those without a file
//   (abstract ones), and the filter sees only the length of an address: that of IPv4, or of this socket.
// - No thread with a JavaScript engine of its own can be started: its `Deno` would be without the changes of the host. Such
//   a thread needs an epoll instance, and the worker ends when it gets none.
// - No other program can be started, and no other process can be inspected, whatever permission is obtained.
// - It ends with the platform, even if its code never lets it read that the platform has ended.
// The filter holds for all threads and cannot be removed. It needs a foreign function, and the permission for these is
// given back before the first line of a project's code is loaded.
import { deno, type Library } from './deno.ts'

const numbers = {
  aarch64: {
    audit: 0xc00000b7,
    seccomp: 277,
    socket: 198,
    connect: 203,
    bind: 200,
    denied: {
      listen: 201,
      epoll_create1: 20,
      execve: 221,
      execveat: 281,
      ptrace: 117,
      process_vm_readv: 270,
      process_vm_writev: 271,
      io_uring_setup: 425,
      unshare: 97,
      setns: 268,
      mount: 40,
      bpf: 280,
      perf_event_open: 241,
      pidfd_getfd: 438,
      open_by_handle_at: 265,
      keyctl: 219,
      userfaultfd: 282,
    },
  },
  x86_64: {
    audit: 0xc000003e,
    seccomp: 317,
    socket: 41,
    connect: 42,
    bind: 49,
    denied: {
      listen: 50,
      epoll_create: 213,
      epoll_create1: 291,
      execve: 59,
      execveat: 322,
      ptrace: 101,
      process_vm_readv: 310,
      process_vm_writev: 311,
      io_uring_setup: 425,
      unshare: 272,
      setns: 308,
      mount: 165,
      bpf: 321,
      perf_event_open: 298,
      pidfd_getfd: 438,
      open_by_handle_at: 304,
      keyctl: 250,
      userfaultfd: 323,
    },
  },
} as const

// Instructions of the classic BPF machine, and results of a filter.
const load = 0x20
const jumpIfEqual = 0x15
const jumpIfAtLeast = 0x35
const answer = 0x06
const allow = 0x7fff0000
const failWith = (errno: number) => 0x00050000 + errno
const [eperm, eacces, enosys, eafnosupport] = [1, 13, 38, 97]
// Where the filter finds the number of the call, the architecture, and the first and third argument.
const [callNumber, architecture, firstArgument, thirdArgument] = [0, 4, 16, 32]
const [unixSockets, ipv4Sockets] = [1, 2]
const ipv4AddressBytes = 16
/** Numbers from here on are calls of the x32 variant of x86-64, which Deno does not use. */
const x32 = 0x40000000

type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, value: number]

/** `unixAddressBytes` is the length of the only address of a Unix socket that can be reached. */
function instructions(arch: keyof typeof numbers, unixAddressBytes: number): Instruction[] {
  const { audit, socket, connect, bind, denied } = numbers[arch]
  return [
    [load, 0, 0, architecture],
    [jumpIfEqual, 1, 0, audit],
    [answer, 0, 0, failWith(enosys)],
    [load, 0, 0, callNumber],
    [jumpIfAtLeast, 0, 1, x32],
    [answer, 0, 0, failWith(enosys)],
    ...Object.values(denied).flatMap((number): Instruction[] => [
      [jumpIfEqual, 0, 1, number],
      [answer, 0, 0, failWith(eperm)],
    ]),
    [jumpIfEqual, 0, 5, connect],
    [load, 0, 0, thirdArgument],
    [jumpIfEqual, 2, 0, ipv4AddressBytes],
    [jumpIfEqual, 1, 0, unixAddressBytes],
    [answer, 0, 0, failWith(eacces)],
    [answer, 0, 0, allow],
    [jumpIfEqual, 0, 4, bind],
    [load, 0, 0, thirdArgument],
    [jumpIfEqual, 1, 0, ipv4AddressBytes],
    [answer, 0, 0, failWith(eacces)],
    [answer, 0, 0, allow],
    [jumpIfEqual, 0, 4, socket],
    [load, 0, 0, firstArgument],
    [jumpIfEqual, 2, 0, unixSockets],
    [jumpIfEqual, 1, 0, ipv4Sockets],
    [answer, 0, 0, failWith(eafnosupport)],
    [answer, 0, 0, allow],
  ]
}

function encode(filter: readonly Instruction[]): Uint8Array {
  const bytes = new Uint8Array(filter.length * 8)
  const view = new DataView(bytes.buffer)
  for (const [index, [code, ifTrue, ifFalse, value]] of filter.entries()) {
    view.setUint16(index * 8, code, true)
    view.setUint8(index * 8 + 2, ifTrue)
    view.setUint8(index * 8 + 3, ifFalse)
    view.setUint32(index * 8 + 4, value, true)
  }
  return bytes
}

export interface Limits {
  /** Heap, buffers and stacks, besides what this process has already. */
  readonly dataBytes: number
  /** A file that is written. */
  readonly fileBytes: number
  readonly openFiles: number
}

/** Numbers of `setrlimit`. */
const resources = { fileBytes: 1, dataBytes: 2, core: 4, openFiles: 7 } as const

function limitBytes(limit: number): Uint8Array {
  const bytes = new Uint8Array(16)
  const view = new DataView(bytes.buffer)
  view.setBigUint64(0, BigInt(limit), true)
  view.setBigUint64(8, BigInt(limit), true)
  return bytes
}

/**
 * What Deno has reserved before it runs any code: stacks of threads that are never used and, on processors with memory
 * protection keys, the space for compiled code. So it differs by hundreds of megabytes between machines.
 */
function presentDataBytes(libc: Library['symbols']): number {
  const file = libc.open(new TextEncoder().encode('/proc/self/statm\0'), 0)
  const text = new Uint8Array(256)
  const length = Number(libc.read(file, text, BigInt(text.length)))
  libc.close(file)
  const pages = Number(new TextDecoder().decode(text.subarray(0, Math.max(0, length))).split(' ')[5])
  if (!(pages > 0)) throw new Error('the memory of this process cannot be read from /proc')
  return pages * libc.getpagesize()
}

/** The family in two bytes, the path and a zero byte. */
const unixAddressBytesOf = (path: string) => 2 + new TextEncoder().encode(path).length + 1

/**
 * Throws if the process cannot be confined. Then it must not load any code. Afterwards nothing can listen, and of Unix
 * sockets only that of the platform can be reached.
 */
export function confine(limits: Limits, platformSocket: string | undefined): void {
  if (deno.build.os !== 'linux') return
  const arch = deno.build.arch
  if (arch !== 'aarch64' && arch !== 'x86_64') throw new Error(`no seccomp filter for ${arch}`)
  const unixAddressBytes =
    platformSocket === undefined ? ipv4AddressBytes : unixAddressBytesOf(platformSocket)
  const filter = instructions(arch, unixAddressBytes)
  const code = encode(filter)
  const program = new Uint8Array(16)
  const view = new DataView(program.buffer)
  view.setUint16(0, filter.length, true)
  view.setBigUint64(8, BigInt(deno.UnsafePointer.value(deno.UnsafePointer.of(code))), true)
  const libc = deno.dlopen('libc.so.6', {
    open: { parameters: ['buffer', 'i32'], result: 'i32' },
    read: { parameters: ['i32', 'buffer', 'u64'], result: 'i64' },
    close: { parameters: ['i32'], result: 'i32' },
    getpagesize: { parameters: [], result: 'i32' },
    setrlimit: { parameters: ['i32', 'buffer'], result: 'i32' },
    prctl: { parameters: ['i32', 'u64', 'u64', 'u64', 'u64'], result: 'i32' },
    syscall: { parameters: ['i64', 'i64', 'i64', 'buffer'], result: 'i64' },
  })
  const [signalOfParentsDeath, noNewPrivileges] = [1, 38]
  const sigkill = 9n
  const [setFilter, allThreads] = [1n, 1n]
  const dataBytes = presentDataBytes(libc.symbols) + limits.dataBytes
  const isLimited = Object.entries({ ...limits, dataBytes, core: 0 }).every(
    ([name, limit]) =>
      libc.symbols.setrlimit(resources[name as keyof typeof resources], limitBytes(limit)) === 0,
  )
  const isConfined =
    isLimited &&
    libc.symbols.prctl(signalOfParentsDeath, sigkill, 0n, 0n, 0n) === 0 &&
    libc.symbols.prctl(noNewPrivileges, 1n, 0n, 0n, 0n) === 0 &&
    Number(libc.symbols.syscall(BigInt(numbers[arch].seccomp), setFilter, allThreads, program)) === 0
  libc.close()
  if (!isConfined) throw new Error('the kernel refused a limit or the seccomp filter')
  if (deno.permissions.revokeSync({ name: 'ffi' }).state === 'granted')
    throw new Error('the permission for foreign functions could not be given back')
}
