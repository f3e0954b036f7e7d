// Who may call a function, and how refusals look. The function's own record decides, so admission reads it first.
import type { DataRoute } from '@plinth/contract/route.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { DataPlaneOptions } from '#src/planes/data/plane.ts'
import type { Callable, FindCallable } from './callable.ts'

const usersOnly = ['authenticated', 'service_role'] as const

/** Clients take a failure with this header for one of the platform, and not for an answer of the function. */
const relayError = { 'x-relay-error': 'true' }
const notOfTheRelay = new Set([400, 401, 403, 413, 429])

type Admission = 'open' | 'anyone with a key' | 'users'
const roles = {
  open: 'open',
  'anyone with a key': ['anon', ...usersOnly],
  users: usersOnly,
} as const satisfies Record<Admission, DataRoute['allow']>

export function functionsPlane(findCallable: FindCallable): DataPlaneOptions {
  /** Each route with each admission, made once. */
  const variants = new Map<DataRoute, Record<Admission, DataRoute>>()
  function variantOf(route: DataRoute, admission: Admission): DataRoute {
    const known = variants.get(route)
    if (known) return known[admission]
    const made = Object.fromEntries(
      Object.entries(roles).map(([name, allow]) => [name, { ...route, allow }]),
    ) as Record<Admission, DataRoute>
    variants.set(route, made)
    return made[admission]
  }

  return {
    answersPreflights: true,
    routeFor(route, tenant, { method, params, headers }) {
      if (method === 'OPTIONS' && headers['access-control-request-method'] !== undefined)
        return variantOf(route, 'open')
      if (!tenant) return variantOf(route, 'users')
      const choose = (callable: Callable) => variantOf(route, admissionTo(callable, params['name'] ?? ''))
      const callable = findCallable(tenant)
      return callable instanceof Promise ? callable.then(choose) : choose(callable)
    },
    explain: error => (error instanceof Refusal && error.code === 'role_not_allowed' ? userNeeded() : error),
    word: (body, { status }) => ({ body, headers: notOfTheRelay.has(status) ? {} : relayError }),
  }
}

/** Callers of the project learn that a function does not exist. Strangers do not learn which ones exist. */
function admissionTo({ functions }: Callable, name: string): Admission {
  const found = functions.get(name)
  if (!found) return 'anyone with a key'
  return found.verify_jwt ? 'users' : 'open'
}

export const userNeeded = () =>
  new Refusal('unauthorized', 'This function needs a signed-in user, and the anon key is none', {
    hint: 'Send the token of a user in Authorization beside the key, use the service_role key, or deploy the function with verify_jwt false.',
    headers: { 'www-authenticate': 'Bearer' },
  })
