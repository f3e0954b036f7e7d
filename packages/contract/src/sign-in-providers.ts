// Providers that users of a project sign in with.
import type { Static } from 'typebox'
import { Nullable, Text } from './shapes.ts'
import { Type } from './type.ts'

export const providerNames = ['github', 'google', 'apple', 'discord', 'microsoft'] as const
export const ProviderName = Type.Enum(providerNames)
export type ProviderName = (typeof providerNames)[number]

const WebAddress = Type.String({
  format: 'uri',
  pattern: '^https?://',
  maxLength: 2048,
  description: 'an address that begins with http:// or https://',
})

const scopes = Type.Array(Text(200), { maxItems: 50 })
const endpoints = {
  authorize_url: WebAddress,
  token_url: WebAddress,
  userinfo_url: WebAddress,
  issuer: WebAddress,
}

export const ProviderInput = Type.Object(
  {
    provider: ProviderName,
    client_id: Type.String({
      minLength: 1,
      maxLength: 1000,
      pattern: '^[^\\u0000]*[^\\s\\u0000][^\\u0000]*$',
      description: 'a text that is not blank',
    }),
    client_secret: Type.Optional(
      Nullable(
        Type.String({
          maxLength: 8192,
          description:
            'If omitted or [redacted], the stored secret is kept. Null or an empty text removes it.',
        }),
      ),
    ),
    enabled: Type.Optional(Type.Boolean({ description: 'Default: true.' })),
    scopes: Type.Optional(Nullable(Type.Union([scopes, Text(4000)]))),
    authorize_url: Type.Optional(Nullable(endpoints.authorize_url)),
    token_url: Type.Optional(Nullable(endpoints.token_url)),
    userinfo_url: Type.Optional(Nullable(endpoints.userinfo_url)),
    issuer: Type.Optional(Nullable(endpoints.issuer)),
  },
  { additionalProperties: false },
)
export type ProviderInput = Static<typeof ProviderInput>

/** null means the built-in value. */
const provider = {
  enabled: Type.Boolean(),
  client_id: Type.String(),
  client_secret: Nullable(Type.String({ description: '[redacted], or null if there is none.' })),
  scopes: Nullable(Type.Array(Type.String())),
  authorize_url: Nullable(Type.String()),
  token_url: Nullable(Type.String()),
  userinfo_url: Nullable(Type.String()),
  issuer: Nullable(Type.String()),
  callback_url: Type.String({ description: 'Register this URL with the provider.' }),
}
export const ProviderConfiguration = Type.Object(provider)
export type ProviderConfiguration = Static<typeof ProviderConfiguration>
export const NamedProvider = Type.Object({ provider: ProviderName, ...provider })
export type NamedProvider = Static<typeof NamedProvider>

export const ProviderTemplate = Type.Object({
  provider: ProviderName,
  name: Type.String(),
  protocol: Type.Enum(['openid', 'oauth2'] as const),
  scopes: Type.Array(Type.String(), {
    description: 'The requested scopes, unless the project sets its own.',
  }),
  authorize_url: Type.String(),
  token_url: Type.String(),
  userinfo_url: Type.String(),
  issuer: Type.String(),
})
