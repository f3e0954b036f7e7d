import type { Static } from 'typebox'
import type { Routes } from './route.ts'
import { Type } from './type.ts'

const ServiceHealth = Type.Object({
  status: Type.String({ description: 'ok, degraded or down' }),
  detail: Type.Optional(Type.String()),
})
export type ServiceHealth = Static<typeof ServiceHealth>

export const Health = Type.Object({
  status: Type.String({ description: 'ok, or unavailable with HTTP 503' }),
  database: Type.String({ description: 'ok or down' }),
  version: Type.String(),
})
export type Health = Static<typeof Health>

export const ServicesHealth = Type.Object({
  status: Type.String({ description: 'ok, degraded (warnings), or unavailable with HTTP 503' }),
  warnings: Type.Array(Type.String()),
  services: Type.Record(Type.String(), ServiceHealth),
  version: Type.String(),
})
export type ServicesHealth = Static<typeof ServicesHealth>

export const healthApi = {
  health: {
    plane: 'management',
    method: 'GET',
    path: '/health',
    scope: 'none',
    atRoot: true,
    raw: true,
    summary: 'Whether the platform and its database answer',
    reply: Health,
  },
  services: {
    plane: 'management',
    method: 'GET',
    path: '/health/services',
    scope: 'none',
    atRoot: true,
    raw: true,
    summary: 'Read the status of every part of the platform',
    reply: ServicesHealth,
  },
  openapi: {
    plane: 'management',
    method: 'GET',
    path: '/openapi.json',
    scope: 'none',
    raw: true,
    summary: 'OpenAPI description of this API',
    reply: Type.Record(Type.String(), Type.Unknown()),
  },
} as const satisfies Routes
