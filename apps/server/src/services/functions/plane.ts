// Who may call a function, and how refusals look. The function's own record decides, so admission reads it first.
import type { DataRoute } from '@plinth/contract/route.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { DataPlaneOptions } from '#src/planes/data/plane.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { FindCallable } from './callable.ts'

const usersOnly = ['authenticated', 'service_role'] as const

/** Clients take a failure with this header for one of the platform, and not for an answer of the function. */
const relayError = { 'x-relay-error': 'true' }
const notOfTheRelay = new Set([400, 401, 403, 413, 429])

export function functionsPlane(findCallable: FindCallable): DataPlaneOptions {
  return {
    answersPreflights: true,
    async routeFor(route, tenant, { method, params, headers }) {
      const isPreflight = method === 'OPTIONS' && headers['access-control-request-method'] !== undefined
      return { ...route, allow: isPreflight ? 'open' : await allowedFor(tenant, params['name'] ?? '') }
    },
    explain: error => (error instanceof Refusal && error.code === 'role_not_allowed' ? userNeeded() : error),
    word: (body, { status }) => ({ body, headers: notOfTheRelay.has(status) ? {} : relayError }),
  }

  /** An unknown function is treated as one that needs a user, so that strangers do not learn which ones exist. */
  async function allowedFor(tenant: Tenant | undefined, name: string): Promise<DataRoute['allow']> {
    if (!tenant) return usersOnly
    const { functions } = await findCallable(tenant)
    const found = functions.get(name)
    if (!found) return ['anon', ...usersOnly]
    return found.verify_jwt ? usersOnly : 'open'
  }
}

export const userNeeded = () =>
  new Refusal('unauthorized', 'This function needs a signed-in user, and the anon key is none', {
    hint: 'Send the token of a user in Authorization beside the key, use the service_role key, or deploy the function with verify_jwt false.',
    headers: { 'www-authenticate': 'Bearer' },
  })
