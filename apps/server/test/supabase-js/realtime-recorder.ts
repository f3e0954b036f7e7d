// Records which methods of client.realtime a suite calls, with a proxy around the unmodified client.
import { postgresChangesFilter } from '@supabase/supabase-js'
import type { Realtime } from './realtime-shapes.ts'

/** The methods that each file of the suite has to call. A public method that is in none of them needs a test. */
export const requiredMethods = {
  changes: [
    'channel.on',
    'channel.subscribe',
    'filter.eq',
    'filter.neq',
    'filter.gt',
    'filter.gte',
    'filter.lt',
    'filter.lte',
    'filter.in',
    'filter.like',
    'filter.ilike',
    'filter.match',
    'filter.imatch',
    'filter.is',
    'filter.isDistinct',
    'filter.not',
    'filter.build',
    'filter.toString',
  ],
  broadcast: ['channel.send', 'channel.httpSend'],
  presence: ['channel.track', 'channel.untrack', 'channel.presenceState'],
  channels: [
    'client.channel',
    'client.getChannels',
    'client.removeChannel',
    'client.removeAllChannels',
    'client.connect',
    'client.disconnect',
    'client.connectionState',
    'client.isConnected',
    'client.isConnecting',
    'client.isDisconnecting',
    'client.endpointURL',
    'client.log',
    'client.hasLogger',
    'client.push',
    'client.sendHeartbeat',
    'client.onHeartbeat',
    'channel.unsubscribe',
    'channel.teardown',
    'channel.copyBindings',
  ],
  auth: ['client.setAuth', 'channel.updateJoinPayload'],
  users: [],
  private: [],
  reconnect: [],
} as const satisfies Record<string, readonly string[]>
export type Area = keyof typeof requiredMethods

/** Private in TypeScript, but present on the prototype. */
const internal = new Set(['filter.add'])

type Part = 'client' | 'channel' | 'filter'

export const calledMethods = new Set<string>()

/** The same object, with every call recorded, also those on its channels. */
export function recordCalls<T extends object>(object: T, part: Part = 'client'): T {
  return new Proxy(object, {
    get(target, name) {
      const value = Reflect.get(target, name, target)
      if (typeof name !== 'string' || typeof value !== 'function' || name.startsWith('_')) return value
      return (...given: unknown[]) => {
        calledMethods.add(`${part}.${name}`)
        const result = value.apply(target, given)
        // Chainable methods return the object itself.
        if (result === target) return recordCalls(target, part)
        return part === 'client' && name === 'channel' ? recordCalls(result, 'channel') : result
      }
    },
    set: (target, name, value) => Reflect.set(target, name, value, target),
  })
}

export const where = () => recordCalls(postgresChangesFilter(), 'filter')

/** All public methods of the client, its channels and filters at run time. */
export function publicMethods(client: Realtime): string[] {
  const parts: [object, Part][] = [
    [client, 'client'],
    [client.channel('any'), 'channel'],
    [postgresChangesFilter(), 'filter'],
  ]
  return parts
    .flatMap(([object, part]) =>
      Object.entries(Object.getOwnPropertyDescriptors(Object.getPrototypeOf(object)))
        .filter(([name, { value }]) => typeof value === 'function' && name !== 'constructor')
        .filter(([name]) => !name.startsWith('_'))
        .map(([name]) => `${part}.${name}`),
    )
    .filter(method => !internal.has(method))
}
