// The helper types of `Database`, which find a row, insert or enum by its name.
import { quote } from './text.ts'

/** `Tables<'name'>` uses the default schema, `Tables<{ schema: 'other' }, 'name'>` another one. */
export const helpers = (first: string): string => `type Schemas = Omit<Database, "__InternalSupabase">
type DefaultSchema = Schemas[${quote(first)}]
type Readable<S extends keyof Schemas> = Schemas[S]["Tables"] & Schemas[S]["Views"]
type Named<Group, Name> = Name extends keyof Group ? Group[Name] : never

export type Tables<
  Place extends keyof (DefaultSchema["Tables"] & DefaultSchema["Views"]) | { schema: keyof Schemas },
  Name extends Place extends { schema: keyof Schemas } ? keyof Readable<Place["schema"]> : never = never,
> = (
  Place extends { schema: keyof Schemas }
    ? Named<Readable<Place["schema"]>, Name>
    : Named<DefaultSchema["Tables"] & DefaultSchema["Views"], Place>
) extends { Row: infer Row }
  ? Row
  : never

export type TablesInsert<
  Place extends keyof DefaultSchema["Tables"] | { schema: keyof Schemas },
  Name extends Place extends { schema: keyof Schemas } ? keyof Schemas[Place["schema"]]["Tables"] : never = never,
> = (
  Place extends { schema: keyof Schemas }
    ? Named<Schemas[Place["schema"]]["Tables"], Name>
    : Named<DefaultSchema["Tables"], Place>
) extends { Insert: infer Insert }
  ? Insert
  : never

export type TablesUpdate<
  Place extends keyof DefaultSchema["Tables"] | { schema: keyof Schemas },
  Name extends Place extends { schema: keyof Schemas } ? keyof Schemas[Place["schema"]]["Tables"] : never = never,
> = (
  Place extends { schema: keyof Schemas }
    ? Named<Schemas[Place["schema"]]["Tables"], Name>
    : Named<DefaultSchema["Tables"], Place>
) extends { Update: infer Update }
  ? Update
  : never

export type Enums<
  Place extends keyof DefaultSchema["Enums"] | { schema: keyof Schemas },
  Name extends Place extends { schema: keyof Schemas } ? keyof Schemas[Place["schema"]]["Enums"] : never = never,
> = Place extends { schema: keyof Schemas }
  ? Named<Schemas[Place["schema"]]["Enums"], Name>
  : Named<DefaultSchema["Enums"], Place>

export type CompositeTypes<
  Place extends keyof DefaultSchema["CompositeTypes"] | { schema: keyof Schemas },
  Name extends Place extends { schema: keyof Schemas }
    ? keyof Schemas[Place["schema"]]["CompositeTypes"]
    : never = never,
> = Place extends { schema: keyof Schemas }
  ? Named<Schemas[Place["schema"]]["CompositeTypes"], Name>
  : Named<DefaultSchema["CompositeTypes"], Place>`
