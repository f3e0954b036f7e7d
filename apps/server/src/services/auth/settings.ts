// What an operator has set for a project's users, over the defaults; read once per state of the project. It may have
// come through the free-form settings of the project: what is not valid counts as not set, and breaks no sign-in.
import { AuthSettings, defaultAuthSettings, RateLimits } from '@plinth/contract/auth-settings.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { runnable } from './mail/redirect.ts'

const read = new WeakMap<Tenant, AuthSettings>()

export function settingsOf(tenant: Tenant): AuthSettings {
  const known = read.get(tenant)
  if (known) return known
  const made = authSettingsFrom(tenant.settings)
  read.set(tenant, made)
  return made
}

type Json = Readonly<Record<string, unknown>>
const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** From the settings of a project as stored. */
export function authSettingsFrom(settings: Json): AuthSettings {
  const stored = isObject(settings['auth']) ? settings['auth'] : {}
  const limits = isObject(stored['rate_limits']) ? stored['rate_limits'] : {}
  const { rate_limits: _, ...fields } = AuthSettings.properties
  const given = { ...defaultAuthSettings, ...fitting(fields, stored) }
  return {
    ...given,
    site_url: asHeader(given.site_url),
    rate_limits: { ...defaultAuthSettings.rate_limits, ...fitting(RateLimits.properties, limits) },
  }
}

/** It goes into a header: other characters are written as URLs write them. */
const asHeader = (url: string) => (/^[\x21-\x7e]*$/.test(url) ? url : new URL(url).href)

const fitting = (schemas: Json, stored: Json) =>
  Object.fromEntries(
    Object.entries(stored).filter(([name, value]) => {
      const schema = Object.hasOwn(schemas, name) ? (schemas[name] as Schema) : undefined
      return schema !== undefined && fits(schema, value)
    }),
  )

/** As much of a schema as the settings use. */
interface Schema {
  type: string
  format?: string
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  maxItems?: number
  items?: Schema
}

function fits(schema: Schema, value: unknown): boolean {
  switch (schema.type) {
    case 'boolean':
      return typeof value === 'boolean'
    case 'integer':
      return Number.isInteger(value) && isWithin(value as number, schema.minimum, schema.maximum)
    case 'string':
      return (
        typeof value === 'string' &&
        isWithin([...value].length, schema.minLength, schema.maxLength) &&
        (schema.format !== 'uri' || isSite(value))
      )
    case 'array':
      return (
        Array.isArray(value) &&
        isWithin(value.length, 0, schema.maxItems) &&
        value.every(each => fits(schema.items!, each))
      )
    default:
      return false
  }
}

const isWithin = (number: number, least = Number.NEGATIVE_INFINITY, most = Number.POSITIVE_INFINITY) =>
  number >= least && number <= most

/** Browsers are sent there: it must be a place, and nothing that runs. */
export function isSite(text: string): boolean {
  const url = URL.parse(text)
  return url !== null && !runnable.has(url.protocol)
}
