// Loads functions and finds their handler: `Deno.serve(handler)`, `export default handler` or `export default { fetch }`.
import { deno, type Handler } from './deno.ts'
import { type Invocation, runIn } from './invocation.ts'

/** How long a module may take after it is loaded to call `Deno.serve`. */
const serveWithinMs = 10_000

interface Loading {
  serve(handler: Handler): void
  readonly served: Promise<Handler>
}

let loading: Loading | undefined

/** Functions call it as if they were a server. It only remembers the handler. */
export function captureServe(): void {
  const serve = (...given: readonly unknown[]) => {
    const handler =
      given.find(each => typeof each === 'function') ?? (given[0] as { handler?: unknown })?.handler
    if (typeof handler !== 'function') throw new TypeError('Deno.serve needs a handler')
    if (!loading) throw new Error('Deno.serve has no effect here: call it once, while the module is loaded')
    loading.serve(handler as Handler)
    const finished = new Promise<void>(() => {})
    const addr = { transport: 'tcp', hostname: '0.0.0.0', port: 8000 }
    return { addr, finished, ref() {}, unref() {}, shutdown: async () => {} }
  }
  Object.defineProperty(deno, 'serve', { value: serve })
}

/** A module that could not be loaded is loaded again after this time, under another URL, because Deno keeps the failure. */
const retryAfterMs = 1000

const handlers = new Map<string, Promise<Handler>>()
const attempts = new Map<string, number>()
/** One module is loaded at a time, so that a handler is known to be that of its module. */
let queue: Promise<unknown> = Promise.resolve()

export function handlerOf(entry: string, invocation: Invocation): Promise<Handler> {
  const known = handlers.get(entry)
  if (known) return known
  const attempt = attempts.get(entry) ?? 0
  const url = attempt === 0 ? entry : `${entry}?attempt=${attempt}`
  const handler = queue.then(() => runIn(invocation, () => load(url)))
  handlers.set(entry, handler)
  queue = handler.catch(() => {
    attempts.set(entry, attempt + 1)
    setTimeout(() => handlers.delete(entry), retryAfterMs)
  })
  return handler
}

async function load(entry: string): Promise<Handler> {
  const { promise: served, resolve: serve } = Promise.withResolvers<Handler>()
  loading = { serve, served }
  try {
    // The specifier is computed. With a static import, Deno would not check the permissions to read the files.
    const module = (await import(entry)) as { default?: unknown }
    const exported = handlerFrom(module.default)
    if (exported) return exported
    return await Promise.race([served, noHandler()])
  } finally {
    loading = undefined
  }
}

function handlerFrom(exported: unknown): Handler | undefined {
  if (typeof exported === 'function') return exported as Handler
  const fetch = (exported as { fetch?: unknown } | undefined)?.fetch
  return typeof fetch === 'function' ? (fetch.bind(exported) as Handler) : undefined
}

const noHandler = () =>
  new Promise<never>((_, reject) => {
    const message =
      'The function has no handler: call Deno.serve(handler), or export a handler or an object with fetch as default'
    setTimeout(() => reject(new Error(message)), serveWithinMs)
  })
