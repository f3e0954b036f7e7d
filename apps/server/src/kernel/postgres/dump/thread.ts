// The code of a thread that runs pg_dump once. pg_dump reads from its socket synchronously, so the thread blocks until the
// platform has put bytes from the server into the ring.
import { readlinkSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import { pathToFileURL } from 'node:url'
import { parentPort, workerData } from 'node:worker_threads'
import { MessageTail } from './message-tail.ts'
import type { Program } from './pinned-module.ts'
import { RingReader } from './ring.ts'
import { type FromThread, maxMemoryBytes, type ThreadInput } from './thread-messages.ts'

/** The parts of an Emscripten module that are used here. */
interface Emscripten {
  HEAPU8: Uint8Array<ArrayBuffer>
  FS: {
    makedev(major: number, minor: number): number
    registerDevice(device: number, operations: object): void
    mkdev(path: string, mode: number, device: number): void
  }
  addFunction(code: (pointer: number, length: number) => number, signature: string): number
  _pgl_set_rw_cbs(receive: number, send: number): void
  callMain(args: string[]): void
}
type Factory = (options: object) => Promise<Emscripten>
/** The types of Node do not have it. */
declare const WebAssembly: {
  Memory: new (limits: { initial: number; maximum: number }) => object
  Instance: new (program: Program, imports: object) => { exports: object }
}

const pageBytes = 65_536
/** The heap limit of the thread does not include it. */
const memoryPages = { initial: 2 ** 26 / pageBytes, maximum: maxMemoryBytes / pageBytes }
const firstOutputBytes = 2 ** 20
const outputFile = '/dev/dump'

const { module, ring, args, maxBytes } = workerData as ThreadInput

function tell(message: FromThread, moved: ArrayBuffer[] = []): void {
  parentPort!.postMessage(message, moved)
}

/** Requests come first. On Linux each thread has a priority of its own; elsewhere it stays as it is. */
function lowerPriority(): void {
  try {
    const thread = Number(readlinkSync('/proc/thread-self').split('/').at(-1))
    setPriority(thread, constants.priority.PRIORITY_BELOW_NORMAL)
  } catch {}
}

/** Collects what pg_dump writes to its output file. */
class Output {
  readonly #bytes = new ArrayBuffer(Math.min(firstOutputBytes, maxBytes), { maxByteLength: maxBytes })
  #length = 0

  write(bytes: Uint8Array): void {
    const needed = this.#length + bytes.length
    if (needed > maxBytes) throw new Error(`The dump is larger than ${maxBytes / 1_000_000} MB.`)
    if (needed > this.#bytes.byteLength) this.#bytes.resize(Math.min(2 * needed, maxBytes))
    new Uint8Array(this.#bytes).set(bytes, this.#length)
    this.#length = needed
  }

  take(): ArrayBuffer {
    return this.#bytes.transferToFixedLength(this.#length)
  }
}

function connect(program: Emscripten): void {
  const reader = new RingReader(ring, () => tell({ kind: 'space' }))
  let hasReadBytes = false
  const receive = (pointer: number, length: number) => {
    // After a long read, libpq reads again to see whether there is more. It takes 0 for no there. Waiting would never end,
    // because the server waits for the next statement. Elsewhere libpq reads again after the first 0.
    if (hasReadBytes && reader.isEmpty) {
      hasReadBytes = false
      return 0
    }
    hasReadBytes = true
    return reader.read(program.HEAPU8.subarray(pointer, pointer + length))
  }
  const send = (pointer: number, length: number) => {
    const bytes = program.HEAPU8.slice(pointer, pointer + length)
    tell({ kind: 'send', bytes }, [bytes.buffer])
    return length
  }
  program._pgl_set_rw_cbs(program.addFunction(receive, 'iii'), program.addFunction(send, 'iii'))
}

function addOutputFile({ FS }: Emscripten, output: Output): void {
  const device = FS.makedev(70, 0)
  FS.registerDevice(device, {
    open() {},
    close() {},
    write(_stream: unknown, memory: Uint8Array, at: number, length: number) {
      output.write(memory.subarray(at, at + length))
      return length
    },
  })
  FS.mkdev(outputFile, 0o600, device)
}

async function run(): Promise<void> {
  const messages = new MessageTail()
  const output = new Output()
  let exitCode = 0
  const { factory } = (await import(pathToFileURL(module.codeFile).href)) as { factory: Factory }
  const program = await factory({
    instantiateWasm(imports: object, use: (instance: object, program: Program) => void) {
      const instance = new WebAssembly.Instance(module.program, imports)
      use(instance, module.program)
      return instance.exports
    },
    wasmMemory: new WebAssembly.Memory(memoryPages),
    noExitRuntime: false,
    print() {},
    printErr: (text: string) => messages.add(`${text}\n`),
    onExit: (code: number) => {
      exitCode = code
    },
  })
  connect(program)
  addOutputFile(program, output)
  program.callMain([...args, '--file', outputFile])
  if (exitCode !== 0) return tell({ kind: 'failed', message: messages.text || `It ended with ${exitCode}.` })
  const dump = output.take()
  tell({ kind: 'done', dump }, [dump])
}

lowerPriority()
try {
  await run()
} catch (error) {
  tell({ kind: 'failed', message: error instanceof Error ? error.message : String(error) })
}
