// The part of Deno's API that the host uses.

interface Permission {
  readonly name: 'ffi' | 'read' | 'write'
  readonly path?: string
}

export interface Library {
  readonly symbols: {
    open(path: Uint8Array, flags: number): number
    read(file: number, into: Uint8Array, bytes: bigint): bigint
    close(file: number): number
    getpagesize(): number
    setrlimit(resource: number, limit: Uint8Array): number
    prctl(option: number, a: bigint, b: bigint, c: bigint, d: bigint): number
    syscall(number: bigint, a: bigint, b: bigint, c: Uint8Array): bigint
  }
  close(): void
}

export type Handler = (request: Request, info: object) => Response | Promise<Response>

/** Opaque: options of Deno that the platform's types do not know. */
export type HttpClient = object

export interface Env {
  get(name: string): string | undefined
  set(name: string, value: string): void
  delete(name: string): void
  has(name: string): boolean
  toObject(): Record<string, string>
}

/** A Unix socket. */
export interface Connection {
  read(bytes: Uint8Array): Promise<number | null>
  write(bytes: Uint8Array): Promise<number>
}

export interface DenoApi {
  readonly args: readonly string[]
  readonly build: { readonly os: string; readonly arch: string }
  readonly stdin: {
    readSync(bytes: Uint8Array): number | null
    read(bytes: Uint8Array): Promise<number | null>
  }
  readonly stdout: { writeSync(bytes: Uint8Array): number }
  readonly permissions: { revokeSync(permission: Permission): { readonly state: string } }
  readonly UnsafePointer: { of(bytes: Uint8Array): object; value(pointer: object): bigint | number }
  env: Env
  serve(...options: readonly unknown[]): unknown
  listen(options: { transport: 'unix'; path: string }): AsyncIterable<Connection>
  upgradeWebSocket(request: Request, options?: object): unknown
  createHttpClient(options: { proxy?: { transport: 'unix'; path: string } }): HttpClient
  dlopen(path: string, symbols: object): Library
  inspect(value: unknown): string
  exit(code: number): never
  /** The key of what Deno uses itself. */
  readonly internal: symbol
}

/** What `AsyncLocalStorage` of Node is made of, which takes longer to load than all other modules of the host. */
export interface AsyncVariable<T> {
  /** Returns the context before. */
  enter(value: T): unknown
  get(): T | undefined
}

interface Core {
  AsyncVariable: new <T>() => AsyncVariable<T>
  setAsyncContext(context: unknown): void
}

export const deno = (globalThis as unknown as { Deno: DenoApi }).Deno
export const { core } = (deno as unknown as Record<symbol, { core: Core }>)[deno.internal]!
