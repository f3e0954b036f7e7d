// Records which methods of the client a suite calls, without changing the client.
import { PostgrestBuilder, PostgrestClient, PostgrestQueryBuilder } from '@supabase/postgrest-js'

type Part = 'client' | 'query' | 'builder'

/** Internal methods of the client. They are private in TypeScript but exist on the prototypes. */
const internal = new Set([
  'client.decorateFetch',
  'query.cloneRequestState',
  'builder.processResponse',
  'builder.constructor',
  'client.constructor',
  'query.constructor',
])

const called = new Set<string>()

function partOf(value: unknown): Part | undefined {
  if (value instanceof PostgrestBuilder) return 'builder'
  if (value instanceof PostgrestQueryBuilder) return 'query'
  return value instanceof PostgrestClient ? 'client' : undefined
}

/** A proxy that records every call, also on the objects that calls return. */
export function watched<T extends object>(object: T, part: Part = 'client'): T {
  return new Proxy(object, {
    get(target, name) {
      const value = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      return (...given: unknown[]) => {
        called.add(`${part}.${String(name)}`)
        const result = value.apply(target, given)
        const next = partOf(result)
        return next ? watched(result, next) : result
      }
    },
  })
}

/** Public methods of these objects, including inherited ones, that were not called. */
export function uncalled(objects: Record<Part, object>): string[] {
  return Object.entries(objects)
    .flatMap(([part, object]) => methodsOf(object).map(name => `${part}.${name}`))
    .filter(method => !called.has(method) && !internal.has(method))
}

function methodsOf(object: object): string[] {
  const names = new Set<string>()
  for (
    let each = Object.getPrototypeOf(object);
    each !== Object.prototype;
    each = Object.getPrototypeOf(each)
  )
    for (const name of Object.getOwnPropertyNames(each)) names.add(name)
  return [...names]
}
