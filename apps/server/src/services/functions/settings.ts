// `settings.functions` of a project: `{ "allowed_hosts": [...] }`, the only hosts that its functions may reach.
import { Refusal } from '#src/kernel/errors.ts'
import type { Tenant } from '#src/tenancy/directory.ts'

const maxHosts = 100
/** A name, possibly with `*.` before it, or an IPv4 address; with a port or without. */
const hostForm = /^(?:\*\.)?[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?(?::\d{1,5})?$/i

/** Undefined: all public hosts. */
export const allowedHostsOf = ({ settings }: Pick<Tenant, 'settings'>): readonly string[] | undefined =>
  (settings['functions'] as { allowed_hosts?: string[] } | undefined)?.allowed_hosts

/** Throws a Refusal if the settings of a project have an invalid value. */
export function checkFunctionSettings(settings: Readonly<Record<string, unknown>>): void {
  const { functions } = settings
  if (functions === undefined || functions === null) return
  const hosts = (functions as { allowed_hosts?: unknown }).allowed_hosts
  const areValid =
    hosts === undefined ||
    (Array.isArray(hosts) &&
      hosts.length <= maxHosts &&
      hosts.every(each => typeof each === 'string' && hostForm.test(each)))
  if (typeof functions !== 'object' || Array.isArray(functions) || !areValid)
    throw new Refusal(
      'invalid_request',
      `settings.functions must be an object whose "allowed_hosts" lists at most ${maxHosts} hosts, such as "api.example.com" or "api.example.com:443"`,
    )
}
