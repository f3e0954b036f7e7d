// `Deno.env` and `process.env` show the secrets of the project that is called, and the names that Supabase's functions
// expect. The environment of the process itself is empty.
import { deno, type Env } from './deno.ts'
import { currentInvocation, type Invocation } from './invocation.ts'

interface Process {
  env: Record<string, string>
}

/** Names whose value differs from call to call. */
const ofCall = new Map<string, (invocation: Invocation) => string>([
  ['SB_EXECUTION_ID', ({ requestId }) => requestId],
  ['DENO_DEPLOYMENT_ID', ({ project, name, version }) => `${project}_${name}_${version}`],
])
let variables: () => Map<string, string> = () => new Map()

function read(name: string): string | undefined {
  const invocation = currentInvocation()
  return (invocation && ofCall.get(name)?.(invocation)) ?? variables().get(name)
}

function all(): Map<string, string> {
  const invocation = currentInvocation()
  if (!invocation) return variables()
  return new Map([...variables(), ...[...ofCall].map(([name, of]) => [name, of(invocation)] as const)])
}

const patched = new WeakSet<object>()

/** `fallback` is used outside of a call, such as in an event that a library has subscribed to while it was loaded. */
export function provideEnvironment(fallback: () => Map<string, string>): void {
  // Deno itself reads TMPDIR when it creates a temporary file.
  for (const name of Object.keys(deno.env.toObject())) if (name !== 'TMPDIR') deno.env.delete(name)
  variables = () => currentInvocation()?.env ?? fallback()
  const env: Env = {
    get: name => read(String(name)),
    set: (name, value) => void variables().set(String(name), String(value)),
    delete: name => void variables().delete(String(name)),
    has: name => read(String(name)) !== undefined,
    toObject: () => Object.fromEntries(all()),
  }
  Object.defineProperty(deno, 'env', { value: env })
  const real = Object.getOwnPropertyDescriptor(globalThis, 'process')!
  // Node's `process` takes as long to load as Deno to start, so it is only loaded for code that uses it.
  Object.defineProperty(globalThis, 'process', {
    configurable: true,
    enumerable: real.enumerable ?? false,
    get: () => withEnvironment((real.get ? real.get.call(globalThis) : real.value) as Process),
    set: value =>
      void Object.defineProperty(globalThis, 'process', { value, writable: true, configurable: true }),
  })
}

/** Before code is loaded that imports modules of Node. */
export async function provideNodeEnvironment(): Promise<void> {
  const { default: process } = await import('node:process')
  withEnvironment(process as unknown as Process)
}

function withEnvironment(process: Process): Process {
  if (patched.has(process)) return process
  patched.add(process)
  process.env = new Proxy<Record<string, string>>(
    {},
    {
      get: (_, name) => (typeof name === 'string' ? read(name) : undefined),
      set: (_, name, value) => {
        if (typeof name === 'string') variables().set(name, String(value))
        return true
      },
      has: (_, name) => typeof name === 'string' && read(name) !== undefined,
      deleteProperty: (_, name) => {
        if (typeof name === 'string') variables().delete(name)
        return true
      },
      ownKeys: () => [...all().keys()],
      getOwnPropertyDescriptor: (_, name) => {
        const value = typeof name === 'string' ? read(name) : undefined
        return value === undefined
          ? undefined
          : { value, writable: true, enumerable: true, configurable: true }
      },
    },
  )
  return process
}
