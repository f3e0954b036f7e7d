// The one way to connect to a host that a tenant has named, for HTTP and for SMTP. The name is resolved once, every
// address of it is checked, and the connection goes to the checked addresses only, so that a second, different answer
// of the DNS changes nothing (DNS rebinding). TLS on top still verifies the name.
import { connect as connectSocket, isIP, type LookupFunction, type Socket } from 'node:net'
import { mayReach } from './address.ts'
import { type Address, createResolve, type Resolve, resolveBySystem } from './resolve.ts'

export type OutboundReason =
  | 'bad_url'
  | 'address_not_allowed'
  | 'name_not_found'
  | 'unreachable'
  | 'timeout'
  | 'too_large'
  | 'compressed'
  | 'aborted'

/** Why there is no answer. The message is for the operator's log: a tenant could scan ports with it. */
export class OutboundError extends Error {
  readonly reason: OutboundReason
  constructor(reason: OutboundReason, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'OutboundError'
    this.reason = reason
  }
}

export interface Connector {
  /** Whether the host, as it is written, leads to no address that may be reached. Asks no DNS. */
  isForbidden(host: string): boolean
  /** Every address of the host; rejects unless all of them may be reached. */
  addressesOf(host: string): Promise<readonly Address[]>
  /** Rejects with OutboundError, or with the reason of the signal. */
  connect(target: Target): Promise<Socket>
}

interface ConnectorOptions {
  /** Addresses and CIDRs that may be reached although they are not public. */
  allow: readonly string[]
  /** All addresses of a name; /etc/hosts and DNS unless given. */
  resolve?: Resolve
}

/** A name with more addresses is tried at these only. */
const maxAddresses = 8

/** For hosts that tenants name. */
export function createConnector({ allow, resolve = createResolve() }: ConnectorOptions): Connector {
  const isAllowed = mayReach(allow)

  async function addressesOf(host: string): Promise<readonly Address[]> {
    const fixed = fixedAddresses(host)
    const addresses = fixed ?? (await found(host, resolve))
    // One forbidden address among those that the DNS answers refuses them all: whoever answers that is up to something.
    const forbidden = addresses.find(({ address }) => !isAllowed(address))
    if (!forbidden) return addresses.slice(0, maxAddresses)
    const usable = fixed?.filter(({ address }) => isAllowed(address)) ?? []
    if (usable.length === 0) throw notAllowed(host, forbidden.address)
    return usable
  }

  return {
    isForbidden: host => fixedAddresses(host)?.every(({ address }) => !isAllowed(address)) ?? false,
    addressesOf,
    connect: target => connected(addressesOf, target),
  }
}

/** For hosts that the operator names, which may be anywhere. */
export function operatorConnector(): Connector {
  const addressesOf = (host: string) => found(host, resolveBySystem)
  return { isForbidden: () => false, addressesOf, connect: target => connected(addressesOf, target) }
}

interface Target {
  host: string
  port: number
  signal: AbortSignal
}

async function connected(addressesOf: Resolve, target: Target): Promise<Socket> {
  return opened(await untilAborted(addressesOf(target.host), target.signal), target)
}

const notAllowed = (host: string, address: string) =>
  new OutboundError(
    'address_not_allowed',
    `${host} is at ${address}, which is not public; if it is meant to be reached, list it in PLATFORM_OUTBOUND_ALLOW`,
  )

async function found(name: string, resolve: Resolve): Promise<readonly Address[]> {
  const addresses = await resolve(name).catch(error => {
    throw new OutboundError('name_not_found', `${name} has no address`, error)
  })
  if (addresses.length === 0) throw new OutboundError('name_not_found', `${name} has no address`)
  return addresses
}

/** Names that mean the same everywhere. */
const wellKnown: Readonly<Record<string, string[]>> = {
  localhost: ['127.0.0.1', '::1'],
  'metadata.google.internal': ['169.254.169.254'],
}

/** Of an address in any spelling (127.1, 0x7f000001, [::1]) and of well-known names; undefined for other names. */
function fixedAddresses(host: string): readonly Address[] | undefined {
  const name = host.toLowerCase().replace(/\.$/, '')
  const known = Object.hasOwn(wellKnown, name) ? wellKnown[name] : undefined
  const addresses = known ?? (name.endsWith('.localhost') ? wellKnown['localhost'] : literalAddresses(name))
  return addresses?.map(address => ({ address, family: isIP(address) }))
}

function literalAddresses(host: string): string[] | undefined {
  if (isIP(host) !== 0) return [host]
  // The URL parser reads every spelling of an IPv4 address as the system's look-up does.
  const read = URL.parse(`http://${host}`)?.hostname.replace(/^\[|\]$/g, '') ?? ''
  return isIP(read) === 0 ? undefined : [read]
}

/** The signal ends the attempt to connect, not the connection. */
function opened(addresses: readonly Address[], { host, port, signal }: Target): Promise<Socket> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    const socket = connectSocket({ host: 'pinned', port, lookup: pinnedTo(addresses) })
    const abort = () => {
      reject(signal.reason)
      socket.destroy()
    }
    const fail = (error: unknown) => {
      signal.removeEventListener('abort', abort)
      reject(new OutboundError('unreachable', `${host} cannot be reached`, error))
    }
    signal.addEventListener('abort', abort, { once: true })
    socket.once('error', fail)
    socket.once('connect', () => {
      signal.removeEventListener('abort', abort)
      socket.off('error', fail)
      // A user of the connection may stop listening before it has ended.
      socket.on('error', () => {})
      resolve(socket)
    })
  })
}

/** Answers the look-up of the connection with what was checked before. */
const pinnedTo =
  (addresses: readonly Address[]): LookupFunction =>
  (_name, { all }, done) => {
    const [first] = addresses
    if (all) done(null, [...addresses])
    else done(null, first!.address, first!.family)
  }

/** The work goes on, but nobody waits for it any longer. */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const giveUp = () => reject(signal.reason)
    if (signal.aborted) giveUp()
    signal.addEventListener('abort', giveUp, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', giveUp))
  })
}
