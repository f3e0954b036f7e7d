// Auth settings of a project, merged over the defaults and cached per tenant object. The free-form project settings can
// hold invalid values. An invalid value falls back to its default, so that sign-in keeps working.
import { AuthSettings, defaultAuthSettings, RateLimits } from '@plinth/contract/auth-settings.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { unsafeSchemes } from './mail/redirect.ts'

const cache = new WeakMap<Tenant, AuthSettings>()

export function settingsOf(tenant: Tenant): AuthSettings {
  const cached = cache.get(tenant)
  if (cached) return cached
  const settings = authSettingsFrom(tenant.settings)
  cache.set(tenant, settings)
  return settings
}

type Json = Readonly<Record<string, unknown>>
const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Takes the project settings as stored. */
export function authSettingsFrom(settings: Json): AuthSettings {
  const stored = isObject(settings['auth']) ? settings['auth'] : {}
  const limits = isObject(stored['rate_limits']) ? stored['rate_limits'] : {}
  const { rate_limits: _, ...fields } = AuthSettings.properties
  const given = { ...defaultAuthSettings, ...validEntries(fields, stored) }
  return {
    ...given,
    site_url: headerSafe(given.site_url),
    rate_limits: { ...defaultAuthSettings.rate_limits, ...validEntries(RateLimits.properties, limits) },
  }
}

/** The Location header takes only printable ASCII, so other characters are percent-encoded. */
const headerSafe = (url: string) => (/^[\x21-\x7e]*$/.test(url) ? url : new URL(url).href)

const validEntries = (schemas: Json, stored: Json) =>
  Object.fromEntries(
    Object.entries(stored).filter(([name, value]) => {
      const schema = Object.hasOwn(schemas, name) ? (schemas[name] as Schema) : undefined
      return schema !== undefined && isValid(schema, value)
    }),
  )

/** The subset of JSON Schema that the settings use. */
interface Schema {
  type?: string
  enum?: readonly unknown[]
  format?: string
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  maxItems?: number
  items?: Schema
}

function isValid(schema: Schema, value: unknown): boolean {
  if (schema.enum) return schema.enum.includes(value)
  switch (schema.type) {
    case 'boolean':
      return typeof value === 'boolean'
    case 'integer':
      return Number.isInteger(value) && isWithin(value as number, schema.minimum, schema.maximum)
    case 'string':
      return (
        typeof value === 'string' &&
        isWithin([...value].length, schema.minLength, schema.maxLength) &&
        (schema.format !== 'uri' || isSiteUrl(value))
      )
    case 'array':
      return (
        Array.isArray(value) &&
        isWithin(value.length, 0, schema.maxItems) &&
        value.every(each => isValid(schema.items!, each))
      )
    default:
      return false
  }
}

const isWithin = (number: number, least = Number.NEGATIVE_INFINITY, most = Number.POSITIVE_INFINITY) =>
  number >= least && number <= most

/** Browsers are redirected there, so `javascript:` and similar schemes are invalid. */
export function isSiteUrl(text: string): boolean {
  const url = URL.parse(text)
  return url !== null && !unsafeSchemes.has(url.protocol)
}
