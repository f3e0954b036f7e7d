// A ring of bytes in shared memory. A thread that must not return to its event loop reads from it, as `read` blocks.

export const ringBytes = 2 ** 20

export interface RingMemory {
  readonly indexes: SharedArrayBuffer
  /** Its size is a power of two, so that the indexes may overflow. */
  readonly bytes: SharedArrayBuffer
}

/** `written` and `read` count bytes. `full` is 1 while the writer waits for space. The reader waits for `events`. */
const index = { written: 0, read: 1, full: 2, closed: 3, events: 4 }

export const createRingMemory = (bytes = ringBytes): RingMemory => ({
  indexes: new SharedArrayBuffer(4 * Object.keys(index).length),
  bytes: new SharedArrayBuffer(bytes),
})

export class RingWriter {
  readonly #indexes: Int32Array
  readonly #bytes: Uint8Array

  constructor(memory: RingMemory) {
    this.#indexes = new Int32Array(memory.indexes)
    this.#bytes = new Uint8Array(memory.bytes)
  }

  /** Returns how many bytes fitted. If not all did, the reader reports free space after its next read. */
  write(bytes: Uint8Array): number {
    let at = 0
    while (at < bytes.length) {
      const copied = this.#copy(bytes.subarray(at))
      // Tries once more after setting `full`, because the reader may have made space before it could see the flag.
      if (copied === 0 && Atomics.exchange(this.#indexes, index.full, 1) === 1) return at
      at += copied
    }
    return at
  }

  /** The reader gets what was written before, then the end. */
  close(): void {
    Atomics.store(this.#indexes, index.closed, 1)
    this.#wakeReader()
  }

  #wakeReader(): void {
    Atomics.add(this.#indexes, index.events, 1)
    Atomics.notify(this.#indexes, index.events)
  }

  #copy(bytes: Uint8Array): number {
    const size = this.#bytes.length
    const written = Atomics.load(this.#indexes, index.written)
    const used = (written - Atomics.load(this.#indexes, index.read)) | 0
    const count = Math.min(size - used, bytes.length)
    const at = (written >>> 0) % size
    const first = Math.min(count, size - at)
    this.#bytes.set(bytes.subarray(0, first), at)
    this.#bytes.set(bytes.subarray(first, count), 0)
    Atomics.store(this.#indexes, index.written, (written + count) | 0)
    this.#wakeReader()
    return count
  }
}

export class RingReader {
  readonly #indexes: Int32Array
  readonly #bytes: Uint8Array
  readonly #onSpace: () => void

  /** `onSpace` is called after a read, if the writer waits for space. */
  constructor(memory: RingMemory, onSpace: () => void) {
    this.#indexes = new Int32Array(memory.indexes)
    this.#bytes = new Uint8Array(memory.bytes)
    this.#onSpace = onSpace
  }

  get isEmpty(): boolean {
    return Atomics.load(this.#indexes, index.written) === Atomics.load(this.#indexes, index.read)
  }

  /** Waits for bytes and copies at most as many as the target holds. Returns their number, which is 0 at the end. */
  read(target: Uint8Array): number {
    for (;;) {
      // Loaded first: if anything happens after that, `wait` returns at once.
      const events = Atomics.load(this.#indexes, index.events)
      const isClosed = Atomics.load(this.#indexes, index.closed) === 1
      const written = Atomics.load(this.#indexes, index.written)
      const available = (written - Atomics.load(this.#indexes, index.read)) | 0
      if (available > 0) return this.#copy(target, Math.min(available, target.length))
      if (isClosed) return 0
      Atomics.wait(this.#indexes, index.events, events)
    }
  }

  #copy(target: Uint8Array, count: number): number {
    const size = this.#bytes.length
    const read = Atomics.load(this.#indexes, index.read)
    const at = (read >>> 0) % size
    const first = Math.min(count, size - at)
    target.set(this.#bytes.subarray(at, at + first), 0)
    target.set(this.#bytes.subarray(0, count - first), first)
    Atomics.store(this.#indexes, index.read, (read + count) | 0)
    if (Atomics.exchange(this.#indexes, index.full, 0) === 1) this.#onSpace()
    return count
  }
}
