// The query string and headers of a request to the row API.
import { Refusal } from '#src/kernel/errors.ts'
import type { RawRequest } from '#src/kernel/http/request.ts'
import type { Caller, RequestFacts } from '#src/tenancy/databases.ts'
import { type Accepted, acceptedFrom } from './accept.ts'
import { type Pair, splitQuery } from './grammar/scan.ts'
import type { Preferences } from './preferences.ts'

export interface RestRequest {
  readonly caller: Caller
  readonly raw: RawRequest
  readonly isHead: boolean
  /** GET, HEAD or OPTIONS, which run read-only. */
  readonly isRead: boolean
  readonly schema: string
  readonly pairs: readonly Pair[]
  readonly accepted: Accepted
  readonly preferences: Preferences
  readonly facts: RequestFacts
}

/** `isReadOnly` makes a POST read-only, too. */
export function readRequest(
  caller: Caller,
  raw: RawRequest,
  preferences: Preferences,
  isReadOnly = false,
): RestRequest {
  const { headers, method } = raw
  const isRead = method === 'GET' || method === 'HEAD' || method === 'OPTIONS'
  const accepted = acceptedFrom(headers.accept)
  if (accepted.explain && caller.role !== 'service_role')
    throw new Refusal('role_not_allowed', 'Plans are shown to service_role only')
  return {
    caller,
    raw,
    isHead: method === 'HEAD',
    isRead,
    schema: schemaOf(caller, headers[isRead ? 'accept-profile' : 'content-profile'] as string | undefined),
    pairs: splitQuery(raw.search),
    accepted,
    preferences,
    facts: new Facts(raw, isRead || isReadOnly, preferences, accepted.explain !== undefined),
  }
}

function schemaOf({ tenant: { exposedSchemas } }: Caller, profile: string | undefined): string {
  if (profile === undefined || profile === exposedSchemas[0]) return exposedSchemas[0]!
  if (exposedSchemas.includes(profile)) return profile
  throw new Refusal('PGRST106', `Invalid schema: ${profile}`, {
    hint: `Only the following schemas are exposed: ${exposedSchemas.join(', ')}`,
  })
}

const native = '/v1/rest/'
const alias = '/rest/v1'

/** `/items` of `/v1/rest/<project>/items` or `/v1/<project>/rest/v1/items`, as SQL and clients of PostgREST know it. */
export function pathBelowApi(path: string): string {
  const end = path.startsWith(native) ? path.indexOf('/', native.length) : path.indexOf(alias) + alias.length
  return (end < 0 ? '' : path.slice(end)) || '/'
}

/** A class, so that the signal is created only when it is used. */
class Facts implements RequestFacts {
  readonly method: string
  readonly path: string
  readonly headers: string
  readonly cookies: string | undefined
  readonly timeZone: string | undefined
  readonly isReadOnly: boolean
  readonly rollsBack: boolean
  readonly #raw: RawRequest

  constructor(raw: RawRequest, isReadOnly: boolean, preferences: Preferences, isExplained: boolean) {
    this.#raw = raw
    this.method = raw.method
    this.path = pathBelowApi(raw.path)
    this.headers = JSON.stringify(raw.headers)
    this.cookies = raw.headers.cookie === undefined ? undefined : cookiesFrom(raw.headers.cookie)
    this.timeZone = preferences.timeZone
    this.isReadOnly = isReadOnly
    this.rollsBack = preferences.rollsBack || isExplained
  }
  get signal() {
    return this.#raw.signal
  }
}

const maxCookies = 1000

function cookiesFrom(header: string): string {
  const cookies = header.split(';', maxCookies + 1)
  if (cookies.length > maxCookies)
    throw new Refusal('invalid_request', `The Cookie header holds more than ${maxCookies} cookies`)
  return JSON.stringify(
    Object.fromEntries(
      cookies.map(each => {
        const [name = '', ...value] = each.split('=')
        return [name.trim(), value.join('=').trim()]
      }),
    ),
  )
}
