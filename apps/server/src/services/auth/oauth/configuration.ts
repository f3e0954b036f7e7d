// Provider settings of a project, merged over the built-in provider.
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { settingsContext } from '#src/tenancy/settings-secrets.ts'
import { type ProviderName, providerNames } from './provider-name.ts'
import { type Endpoints, type Provider, providers } from './providers.ts'

export interface ConfiguredProvider extends Endpoints {
  name: ProviderName
  provider: Provider
  /** The first is used for redirects. The others belong to native applications, whose ID tokens are valid, too. */
  clientIds: readonly [string, ...string[]]
  clientSecret: string
  scopes: readonly string[]
}

type Json = Readonly<Record<string, unknown>>
const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Undefined unless the provider is enabled and has a client id. */
export function configuredProvider(
  tenant: Tenant,
  name: ProviderName,
  sealer: Sealer,
): ConfiguredProvider | undefined {
  const stored = storedOf(tenant, name)
  if (stored?.['enabled'] !== true) return
  const [clientId, ...otherIds] = words(stored['client_id'], ',')
  if (clientId === undefined) return
  const provider = providers[name]
  const secret = textOf(stored['client_secret'])
  return {
    name,
    provider,
    clientIds: [clientId, ...otherIds],
    clientSecret: secret && unseal(sealer, secret, tenant),
    scopes: scopesOf(stored['scopes']) ?? provider.scopes,
    ...endpointsOf(provider, stored),
  }
}

/** The free-form settings can hold a text that only looks sealed. Then there is no secret. */
function unseal(sealer: Sealer, secret: string, tenant: Tenant): string {
  try {
    return sealer.open(secret, settingsContext(tenant.id))
  } catch {
    return ''
  }
}

/** Providers that a sign-in page can offer. */
export const enabledProviders = (tenant: Tenant): Record<ProviderName, boolean> =>
  Object.fromEntries(
    providerNames.map(name => {
      const stored = storedOf(tenant, name)
      return [name, stored?.['enabled'] === true && words(stored['client_id'], ',').length > 0]
    }),
  ) as Record<ProviderName, boolean>

function storedOf({ settings }: Tenant, name: ProviderName): Json | undefined {
  const { auth } = settings
  const all = isObject(auth) ? auth['providers'] : undefined
  const stored = isObject(all) ? all[name] : undefined
  return isObject(stored) ? stored : undefined
}

/**
 * With a custom issuer, missing endpoints stay empty and are discovered at that issuer. The built-in endpoints would
 * send tokens of one provider to another.
 */
function endpointsOf(provider: Provider, stored: Json): Endpoints {
  const issuer = textOf(stored['issuer'])
  const isCustomIssuer = provider.protocol === 'openid' && issuer !== '' && issuer !== provider.issuer
  const endpoint = (name: 'authorize_url' | 'token_url' | 'userinfo_url') =>
    textOf(stored[name]) || (isCustomIssuer ? '' : provider[name])
  return {
    authorize_url: endpoint('authorize_url'),
    token_url: endpoint('token_url'),
    userinfo_url: endpoint('userinfo_url'),
    issuer: issuer || provider.issuer,
  }
}

const textOf = (value: unknown) => (typeof value === 'string' ? value.trim() : '')

const words = (value: unknown, separator: string) =>
  textOf(value)
    .split(separator)
    .map(each => each.trim())
    .filter(Boolean)

/** Accepts a list, or a text separated by spaces or commas. */
function scopesOf(value: unknown): string[] | undefined {
  const given = Array.isArray(value)
    ? value.flatMap(each => words(each, ' '))
    : words(textOf(value).replaceAll(',', ' '), ' ')
  return given.length > 0 ? given : undefined
}
