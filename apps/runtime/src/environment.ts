// `Deno.env` and `process.env` show the secrets of the project that is called, and the names that Supabase's functions
// expect. The environment of the process itself is empty.
import process from 'node:process'
import { deno, type Env } from './deno.ts'
import { currentInvocation } from './invocation.ts'

/** `fallback` is used outside of a call, such as in an event that a library has subscribed to while it was loaded. */
export function provideEnvironment(fallback: () => Map<string, string>): void {
  // Deno itself reads TMPDIR when it creates a temporary file.
  for (const name of Object.keys(deno.env.toObject())) if (name !== 'TMPDIR') deno.env.delete(name)
  const variables = () => currentInvocation()?.env ?? fallback()
  const env: Env = {
    get: name => variables().get(String(name)),
    set: (name, value) => void variables().set(String(name), String(value)),
    delete: name => void variables().delete(String(name)),
    has: name => variables().has(String(name)),
    toObject: () => Object.fromEntries(variables()),
  }
  Object.defineProperty(deno, 'env', { value: env })
  process.env = new Proxy<Record<string, string>>(
    {},
    {
      get: (_, name) => (typeof name === 'string' ? env.get(name) : undefined),
      set: (_, name, value) => {
        if (typeof name === 'string') env.set(name, String(value))
        return true
      },
      has: (_, name) => typeof name === 'string' && env.has(name),
      deleteProperty: (_, name) => {
        if (typeof name === 'string') env.delete(name)
        return true
      },
      ownKeys: () => [...variables().keys()],
      getOwnPropertyDescriptor: (_, name) => {
        const value = typeof name === 'string' ? env.get(name) : undefined
        return value === undefined
          ? undefined
          : { value, writable: true, enumerable: true, configurable: true }
      },
    },
  )
}
