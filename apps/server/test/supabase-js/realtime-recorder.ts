// Watches which methods of client.realtime a suite calls, from outside: the client itself stays as it was published.
import { postgresChangesFilter } from '@supabase/supabase-js'
import type { Realtime } from './realtime-shapes.ts'

/** What each file of the suite calls at least; a method that is in none of them needs a test. */
export const walked = {
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
export type Theme = keyof typeof walked

/** Only the client itself calls it; TypeScript hides it, the prototype does not. */
const internal = new Set(['filter.add'])

type Part = 'client' | 'channel' | 'filter'

export const called = new Set<string>()

/** The same object, and the channels it hands out, with every call noted. */
export function watched<T extends object>(object: T, part: Part = 'client'): T {
  return new Proxy(object, {
    get(target, name) {
      const value = Reflect.get(target, name, target)
      if (typeof name !== 'string' || typeof value !== 'function' || name.startsWith('_')) return value
      return (...given: unknown[]) => {
        called.add(`${part}.${name}`)
        const result = value.apply(target, given)
        // What is called in a chain answers the object itself.
        if (result === target) return watched(target, part)
        return part === 'client' && name === 'channel' ? watched(result, 'channel') : result
      }
    },
    set: (target, name, value) => Reflect.set(target, name, value, target),
  })
}

export const where = () => watched(postgresChangesFilter(), 'filter')

/** Every public method of the client and of what it hands out, as they are at run time. */
export function offered(client: Realtime): string[] {
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
