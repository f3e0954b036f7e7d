// Checked addresses of hosts. Requests to the same host share a lookup for a second, so that a burst of deliveries makes
// one DNS query. A name that now resolves to a private address is rejected after at most that second.

import { remember } from '#src/kernel/remember.ts'
import type { Connector } from './connect.ts'
import type { Address } from './resolve.ts'

export interface Lookups {
  /** The addresses of a shared lookup that has already succeeded. */
  known(host: string): readonly Address[] | undefined
  /** Rejects like `Connector.addressesOf`. */
  addressesOf(host: string): Promise<readonly Address[]>
}

interface Lookup {
  startedAt: number
  result: Promise<readonly Address[]>
  addresses?: readonly Address[]
}

const maxHosts = 1000

export function createLookups(connector: Connector, sharedMs: number): Lookups {
  const lookups = new Map<string, Lookup>()

  function shared(host: string): Lookup | undefined {
    const lookup = lookups.get(host)
    return lookup && performance.now() - lookup.startedAt < sharedMs ? lookup : undefined
  }

  function start(host: string): Lookup {
    const lookup: Lookup = { startedAt: performance.now(), result: connector.addressesOf(host) }
    remember(lookups, host, lookup, maxHosts)
    lookup.result.then(
      addresses => {
        lookup.addresses = addresses
      },
      // The callers handle it.
      () => {},
    )
    return lookup
  }

  return {
    known: host => shared(host)?.addresses,
    addressesOf: host => (shared(host) ?? start(host)).result,
  }
}
