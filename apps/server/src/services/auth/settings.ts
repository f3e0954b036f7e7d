// What an operator has set for a project's users, over the defaults; read once per state of the project.
import { type AuthSettings, defaultAuthSettings } from '@plinth/contract/auth-settings.ts'
import type { Tenant } from '#src/tenancy/directory.ts'

const read = new WeakMap<Tenant, AuthSettings>()

export function settingsOf(tenant: Tenant): AuthSettings {
  const known = read.get(tenant)
  if (known) return known
  const made = authSettingsFrom(tenant.settings)
  read.set(tenant, made)
  return made
}

/** From the settings of a project as stored. */
export function authSettingsFrom(settings: Readonly<Record<string, unknown>>): AuthSettings {
  const stored = (settings['auth'] ?? {}) as Partial<AuthSettings>
  const known = Object.fromEntries(
    Object.entries(stored).filter(([name]) => Object.hasOwn(defaultAuthSettings, name)),
  )
  return {
    ...defaultAuthSettings,
    ...known,
    rate_limits: { ...defaultAuthSettings.rate_limits, ...stored.rate_limits },
  }
}
