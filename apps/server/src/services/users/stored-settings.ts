// `settings.auth` of a project holds the values that differ from the defaults, and the providers. Other keys stay
// unchanged.
import {
  type ProviderConfiguration,
  type ProviderInput,
  providerNames,
} from '@plinth/contract/sign-in-providers.ts'
import type { AuthSettingsChange } from '@plinth/contract/users.ts'
import { redacted } from '#src/tenancy/settings-secrets.ts'
import type { Settings } from '#src/tenancy/settings-store.ts'

const isObject = (value: unknown): value is Settings =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const objectIn = (settings: Settings, name: string): Settings => {
  const value = Object.hasOwn(settings, name) ? settings[name] : undefined
  return isObject(value) ? value : {}
}

const authIn = (settings: Settings) => objectIn(settings, 'auth')
const providersIn = (settings: Settings) => objectIn(authIn(settings), 'providers')
const withProviders = (settings: Settings, providers: Settings): Settings => ({
  ...settings,
  auth: { ...authIn(settings), providers },
})

/** Merges keys. A null removes the key, so that its default applies. */
function merged(stored: Settings, change: Settings): Settings {
  const all = { ...stored, ...change }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null))
}

export function withChange(settings: Settings, change: AuthSettingsChange): Settings {
  const stored = authIn(settings)
  const { rate_limits: limits } = change
  return {
    ...settings,
    auth: merged(stored, {
      ...change,
      ...(limits && { rate_limits: merged(objectIn(stored, 'rate_limits'), limits) }),
    }),
  }
}

/** Undefined when there is no such provider. */
export function withoutProvider(settings: Settings, name: string): Settings | undefined {
  const providers = providersIn(settings)
  if (!Object.hasOwn(providers, name)) return
  const { [name]: _, ...rest } = providers
  return withProviders(settings, rest)
}

/** The sealed secret of a provider. Undefined for an unknown provider, null for a provider without a secret. */
export function storedSecret(settings: Settings, name: string): string | null | undefined {
  const stored = providersIn(settings)[name]
  if (!isObject(stored)) return
  const secret = stored['client_secret']
  return typeof secret === 'string' && secret !== '' ? secret : null
}

export function withProvider(settings: Settings, request: ProviderInput, secret: string | null): Settings {
  const { provider, client_id, enabled = true, scopes, client_secret: _, ...urls } = request
  return withProviders(settings, {
    ...providersIn(settings),
    [provider]: merged(
      {},
      { enabled, client_id, client_secret: secret, scopes: scopes ? scopeList(scopes) : null, ...urls },
    ),
  })
}

/** Accepts a list, or a text separated by spaces or commas. */
function scopeList(given: unknown): string[] | null {
  const texts = Array.isArray(given) ? given : [given]
  const words = texts.flatMap(text => (typeof text === 'string' ? text.split(/[\s,]+/) : [])).filter(Boolean)
  return words.length > 0 ? words : null
}

const textIn = (stored: Settings, name: string): string | null => {
  const value = stored[name]
  return typeof value === 'string' && value !== '' ? value : null
}

/** Copies known fields one by one, so that an unknown field that may hold a secret is not shown. */
export const shownProvider = (stored: Settings, callbackUrl: string): ProviderConfiguration => ({
  enabled: stored['enabled'] === true,
  client_id: textIn(stored, 'client_id') ?? '',
  client_secret: textIn(stored, 'client_secret') && redacted,
  scopes: scopeList(stored['scopes']),
  authorize_url: textIn(stored, 'authorize_url'),
  token_url: textIn(stored, 'token_url'),
  userinfo_url: textIn(stored, 'userinfo_url'),
  issuer: textIn(stored, 'issuer'),
  callback_url: callbackUrl,
})

export const shownProviders = (
  settings: Settings,
  callbackUrl: string,
): Record<string, ProviderConfiguration> =>
  Object.fromEntries(
    providerNames.flatMap(name => {
      const stored = providersIn(settings)[name]
      return isObject(stored) ? [[name, shownProvider(stored, callbackUrl)]] : []
    }),
  )
